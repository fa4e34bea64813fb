/* model.h: an open artifact inside the runtime. Nothing here changes after open but `references` and `verified`. */
#ifndef MCP26_MODEL_H
#define MCP26_MODEL_H

#include "container.h"
#include "mcp26.h"
#include "mcp26_abi.h"
#include "platform.h"

#include <stdatomic.h>

/* Memory that lives as long as the model: given out front to back, freed at once. */
typedef struct mcp26_block mcp26_block;

typedef struct {
    const uint8_t *base;
    uint64_t size;
    const uint8_t *sha256;
    uint32_t section;
    atomic_uint verified; /* 1: its SHA-256 has been found right */
} mcp26_model_shard;

/* A tensor of the self-test. Where `info.data` is NULL, an input is drawn from the seed, and of an output there are the
 * means of its blocks (double) and an element of each. */
typedef struct {
    mcp26_golden_tensor info;
    const uint8_t *means, *elements;
    uint64_t block, seed;
    float scale;
    uint32_t range;
} mcp26_model_golden_tensor;

typedef struct {
    mcp26_golden_case info;
    const mcp26_model_golden_tensor *inputs, *outputs;
    uint64_t drawn_bytes; /* of all drawn inputs, each rounded up to 64 */
} mcp26_model_golden_case;

typedef struct {
    uint32_t input, shard, rank;
    const int64_t *shape;
    const uint8_t *data;
    uint64_t bytes;
} mcp26_model_default;

struct mcp26_model {
    atomic_uint references;
    mcp26_block *blocks;
    mcp26_os_file file;
    mcp26_container container;
    uint32_t verify; /* an mcp26_verify */

    mcp26_model_info info;
    const mcp26_tensor_info *inputs, *outputs;
    const mcp26_symbol_info *symbols;
    const mcp26_step_info *steps;
    mcp26_model_shard *shards;
    const mcp26_shard *shard_table; /* the same for compiled code: env->shards */
    const mcp26_model_golden_case *golden;
    const mcp26_model_default *defaults; /* what inputs hold that the caller leaves unbound */
    uint32_t default_count;
    uint32_t offset_count;

    mcp26_os_code code;
    mcp26_entry_fn entry;
    mcp26_plan_fn plan;
    uint64_t entry_offset, plan_offset;
};

/* `count` zeroed elements of `size` bytes that live as long as the model; NULL when exhausted. */
void *mcp26_model_take(mcp26_model *model, uint64_t count, uint64_t size);

/* A case of the self-test; NULL where there is none. */
const mcp26_model_golden_case *mcp26_model_golden_case_of(const mcp26_model *model, uint32_t golden);

/* Decode META (meta.c) and choose a code variant. Needs model->container; fills info and all that describes the model,
 * and entry_offset and plan_offset in the section *code_section. */
mcp26_status mcp26_model_decode(mcp26_model *model, uint32_t *code_section, mcp26_error *error);

/* Check sections against their SHA-256 in META. */
mcp26_status mcp26_model_verify_sections(mcp26_model *model, mcp26_error *error);

/* Check a shard, once for all sessions. */
mcp26_status mcp26_model_verify_shard(mcp26_model *model, uint32_t shard, mcp26_error *error);

/* One reference less; the last one frees. */
void mcp26_model_drop(mcp26_model *model);

#endif
