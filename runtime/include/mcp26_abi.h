/* mcp26_abi.h: the contract between compiled code and the runtime.
 *
 * An artifact's CODE section is a relocation-free, position-independent image that the runtime maps read+execute.
 * The metadata names two entry points by their offset in the image:
 *
 *     int64_t entry(mcp26_env *env, uint32_t step);   run one step; the next step's index, or a negative status
 *     int32_t plan(mcp26_env *env, uint32_t step);    sizes, offsets and output shapes from symbol values
 *
 * The runtime starts at step 0 and calls `entry` with what the last call returned until that equals the number of
 * steps in the metadata. If and Loop are ranges of steps that return another next step. Between two steps the runtime may
 * profile, prefetch or release shards, honour the cancel flag, and grow the arena.
 *
 * `plan(env, 0)` runs whenever symbol values changed, before step 0. It writes `plan_bytes`, `offsets[]` and the shapes of
 * the outputs. A step whose sizes depend on data sets symbols and calls its own plan for what follows (`plan(env, step)`).
 *
 * Compiled code calls nothing but the functions in this structure. It holds no mutable static data, so one mapped
 * image serves any number of sessions and threads at once.
 *
 * Used by the runtime and included by every generated translation unit: freestanding headers only.
 */
#ifndef MCP26_ABI_H
#define MCP26_ABI_H

#include <stdint.h>

#define MCP26_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mcp26_env mcp26_env;

/* A part of a parallel loop: items [begin, end) on worker `worker` (0 <= worker < env->workers).
 * 0, or a negative status (see mcp26.h), which ends the loop and the step. */
typedef int32_t (*mcp26_body)(mcp26_env *env, void *arg, int64_t begin, int64_t end, uint32_t worker);

typedef int64_t (*mcp26_entry_fn)(mcp26_env *env, uint32_t step);
typedef int32_t (*mcp26_plan_fn)(mcp26_env *env, uint32_t step);

/* A weight shard; `base` is aligned to 64 bytes, valid while a step that names the shard in the metadata runs. */
typedef struct {
    const uint8_t *base;
    uint64_t size;
} mcp26_shard;

/* A bound input or output. `shape` has room for the rank in the metadata; for outputs `plan` or a step writes it.
 * `data` is aligned to the element's size; `capacity` is in bytes. */
typedef struct {
    uint8_t *data;
    uint64_t capacity;
    int64_t *shape;
    uint32_t rank;
    uint32_t reserved;
} mcp26_tensor;

/* What only the data could show: written before a step returns MCP26_STEP_DATA. */
typedef struct {
    uint32_t step;
    int32_t kind;  /* an mcp26_data_error */
    int64_t index; /* the offending value */
    int64_t bound; /* what it had to stay below, or equal */
} mcp26_fault;

/* Statuses that compiled code returns; the same numbers as in mcp26.h. */
enum { MCP26_STEP_MEMORY = -3, MCP26_STEP_DATA = -20, MCP26_STEP_CANCELLED = -21 };

typedef enum {
    MCP26_DATA_NONE = 0,
    MCP26_DATA_INDEX = 1,   /* an index outside [-bound, bound) */
    MCP26_DATA_SHAPE = 2,   /* sizes that do not fit together */
    MCP26_DATA_DIVIDE = 3,  /* integer division by zero */
    MCP26_DATA_BOUND = 4    /* a size beyond its declared bound */
} mcp26_data_error;

struct mcp26_env {
    uint32_t abi_version; /* MCP26_ABI_VERSION of the runtime */
    uint32_t env_size;    /* sizeof(mcp26_env) in the runtime; fields are only ever appended */

    const mcp26_shard *shards;
    const mcp26_tensor *inputs;
    mcp26_tensor *outputs;

    uint8_t *arena;       /* activations; aligned to 64 bytes; valid contents only within one run */
    uint64_t arena_bytes; /* what is there */
    uint8_t *state;       /* what lives across runs (KV cache, recurrent state); aligned to 64 bytes */
    uint64_t state_bytes;

    uint8_t *scratch;        /* workers x scratch_stride bytes; worker w owns scratch + w * scratch_stride */
    uint64_t scratch_stride; /* at least what the metadata asks for; a multiple of 64 */
    uint32_t workers;        /* threads that parallel_for may use, >= 1 */
    uint32_t reserved;

    int64_t *symbols;    /* values of symbolic sizes, in the metadata's order */
    uint64_t *offsets;   /* arena offsets of buffers whose place depends on symbols; written by plan */
    uint64_t plan_bytes; /* arena bytes that the current symbol values need; written by plan */

    /* Run body over [0, n) in chunks of `grain` or a few more items, on any of the workers, and return when all is done:
     * 0 or the first negative status. Not reentrant from inside a body. */
    int32_t (*parallel_for)(mcp26_env *env, mcp26_body body, void *arg, int64_t n, int64_t grain);

    /* Make the arena at least `bytes` large; its contents are kept, its address may change. 0 or a negative status.
     * Only artifacts whose metadata says `unbounded` call it. */
    int32_t (*grow)(mcp26_env *env, uint64_t bytes);

    const uint32_t *cancel; /* non-zero: the caller wants the run to end; long steps may look and return MCP26_STEP_CANCELLED */
    mcp26_fault fault;
    void *runtime; /* the runtime's own */
};

#ifdef __cplusplus
}
#endif
#endif
