/* mcp26.h: run .mcp26bin artifacts.
 *
 * A program's way through this page:
 *
 *     mcp26_error error;
 *     mcp26_model *model;
 *     mcp26_session *session;
 *     if (mcp26_model_open("net.mcp26bin", NULL, &model, &error) != MCP26_OK) fail(error.message);
 *     if (mcp26_session_create(model, NULL, &session, &error) != MCP26_OK) fail(error.message);
 *
 *     const int64_t shape[] = {1, 3, 224, 224};
 *     mcp26_session_bind_input(session, 0, MCP26_FLOAT32, shape, 4, pixels, sizeof pixels);
 *     if (mcp26_session_run(session) != MCP26_OK) fail(mcp26_session_message(session));
 *
 *     mcp26_view scores;
 *     mcp26_session_output(session, 0, &scores);      -- scores.data, scores.shape, scores.bytes
 *
 *     mcp26_session_close(session);
 *     mcp26_model_close(model);
 *
 * Threads. A model never changes after open: any number of threads and sessions share it. A session belongs to one
 * thread at a time; only mcp26_session_cancel may come from another. Sessions are independent of each other.
 *
 * Memory. open and create allocate; mcp26_session_run allocates nothing, unless the artifact is `unbounded` (see
 * mcp26_model_info). mcp26_session_size says what a session needs, and the options can hand that memory in.
 *
 * Trust. open checks the checksums of header, section table, metadata and code, and reads a damaged or hostile file's
 * structure without ever leaving its bounds. Code with a correct checksum is executed: whoever takes artifacts from
 * others checks the file's signature first.
 *
 * fork. A child may go on using sessions that were idle at the fork; its parallel loops then run on the calling thread.
 *
 * The library prints nothing, never exits, installs no handlers and keeps no global state.
 */
#ifndef MCP26_H
#define MCP26_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MCP26_API __attribute__((visibility("default")))
#else
#define MCP26_API
#endif

/* The runtime's version. An artifact states the least one it needs, in the same numbers. */
#define MCP26_VERSION_MAJOR 1
#define MCP26_VERSION_MINOR 1

/* The format's major version that this runtime reads; any minor of it. */
#define MCP26_FORMAT_MAJOR 1

/* ---- Statuses: the numbers never change; new ones are appended ---- */

typedef enum {
    MCP26_OK = 0,
    MCP26_ERR_ARGUMENT = -1,         /* a null pointer, an index out of range, unknown options */
    MCP26_ERR_IO = -2,               /* the system refused to open or map the file */
    MCP26_ERR_MEMORY = -3,           /* memory is exhausted, or a budget or given memory is too small */
    MCP26_ERR_NOT_ARTIFACT = -4,     /* the file does not start as an artifact does */
    MCP26_ERR_TRUNCATED = -5,        /* the file is not as long as its header states */
    MCP26_ERR_CORRUPT_HEADER = -6,   /* header or section table: wrong checksum or impossible values */
    MCP26_ERR_CORRUPT_META = -7,     /* metadata: wrong checksum or impossible values */
    MCP26_ERR_CORRUPT_CODE = -8,     /* a code section: wrong checksum */
    MCP26_ERR_CORRUPT_DATA = -9,     /* a section's SHA-256 is not the metadata's (verify lazy or full) */
    MCP26_ERR_FORMAT_VERSION = -10,  /* the file is of another major version of the format */
    MCP26_ERR_RUNTIME_VERSION = -11, /* the artifact needs a newer runtime, or another code ABI */
    MCP26_ERR_CPU = -12,             /* no code variant runs on this processor; the message names what is missing */
    MCP26_ERR_DTYPE = -13,           /* a tensor of another data type */
    MCP26_ERR_RANK = -14,            /* a tensor of another rank */
    MCP26_ERR_SHAPE = -15,           /* a dimension of another size, or one symbol with two values */
    MCP26_ERR_SYMBOL = -16,          /* a symbolic dimension outside its bounds */
    MCP26_ERR_MISSING_INPUT = -17,   /* run without all inputs bound */
    MCP26_ERR_BYTES = -18,           /* a buffer is not as large as its shape needs */
    MCP26_ERR_ALIGNMENT = -19,       /* a buffer is not aligned to its element size */
    MCP26_ERR_DATA = -20,            /* the data led out of bounds (an index, a size); the message says where */
    MCP26_ERR_CANCELLED = -21,       /* mcp26_session_cancel ended the run */
    MCP26_ERR_GOLDEN = -22,          /* an output differs from the embedded expected one */
    MCP26_ERR_STEP = -23,            /* compiled code returned what it must not: a bug in the compiler */
    MCP26_ERR_NO_CODE = -24          /* the artifact holds no native code (it is for another backend) */
} mcp26_status;

/* One line, English, for a status; static storage. */
MCP26_API const char *mcp26_strerror(mcp26_status status);

/* What went wrong, with the names and numbers of the case. Functions that make a handle fill one where the caller gives
 * one (NULL is allowed); sessions keep theirs, see mcp26_session_message. */
typedef struct {
    int32_t status;    /* an mcp26_status */
    char message[508]; /* NUL-terminated UTF-8, cut where too long; empty after success */
} mcp26_error;

/* The library's version as (major << 16) | minor. */
MCP26_API uint32_t mcp26_version(void);

/* 1 where this processor (and system) has the feature of that name, as /proc/cpuinfo spells it: "avx2", "asimddp". */
MCP26_API int32_t mcp26_cpu_has(const char *feature);

/* ---- Model: an open artifact ---- */

typedef struct mcp26_model mcp26_model;

typedef enum {
    MCP26_VERIFY_CHECKSUMS = 0, /* header, table, metadata, code: always done */
    MCP26_VERIFY_LAZY = 1,      /* and each weight shard's SHA-256 before its first use */
    MCP26_VERIFY_FULL = 2       /* and every section's SHA-256 at open */
} mcp26_verify;

/* Zero means the default everywhere; NULL instead of options means all defaults. */
typedef struct {
    uint32_t struct_size; /* sizeof(mcp26_model_options) */
    uint32_t verify;      /* an mcp26_verify */
} mcp26_model_options;

/* Open the artifact at `path`. The file is mapped, not read: it must stay unchanged (replace it by renaming) while
 * open. *model is NULL after a failure. */
MCP26_API mcp26_status mcp26_model_open(const char *path, const mcp26_model_options *options, mcp26_model **model,
                                        mcp26_error *error);

/* The same for an artifact in memory. `data` must be aligned to 64 bytes and outlive the model; only code is copied. */
MCP26_API mcp26_status mcp26_model_open_memory(const void *data, size_t size, const mcp26_model_options *options,
                                               mcp26_model **model, mcp26_error *error);

/* Give the handle back. Sessions may still be open: the last one closes the file. NULL is allowed. */
MCP26_API void mcp26_model_close(mcp26_model *model);

/* ---- What the artifact says about itself. Pointers live as long as the model; strings are NUL-terminated. ---- */

/* Element types: ONNX's TensorProto.DataType codes. 0 where a function's caller does not state one. Every element has
 * whole bytes: one of 4 or 2 bits lies in the low bits of one, whose other bits are zero. */
typedef enum {
    MCP26_UNDEFINED = 0,
    MCP26_FLOAT32 = 1,
    MCP26_UINT8 = 2,
    MCP26_INT8 = 3,
    MCP26_UINT16 = 4,
    MCP26_INT16 = 5,
    MCP26_INT32 = 6,
    MCP26_INT64 = 7,
    MCP26_BOOL = 9,
    MCP26_FLOAT16 = 10,
    MCP26_FLOAT64 = 11,
    MCP26_UINT32 = 12,
    MCP26_UINT64 = 13,
    MCP26_BFLOAT16 = 16,
    MCP26_FLOAT8E4M3FN = 17,
    MCP26_FLOAT8E4M3FNUZ = 18,
    MCP26_FLOAT8E5M2 = 19,
    MCP26_FLOAT8E5M2FNUZ = 20,
    MCP26_UINT4 = 21,
    MCP26_INT4 = 22,
    MCP26_FLOAT4E2M1 = 23,
    MCP26_FLOAT8E8M0 = 24,
    MCP26_UINT2 = 25,
    MCP26_INT2 = 26
} mcp26_dtype;

/* Bits that one element takes in memory, a multiple of 8; 0 for an unknown code. */
MCP26_API uint32_t mcp26_dtype_bits(uint32_t dtype);

/* "float32", as the schema spells it; "undefined" for an unknown code. Static storage. */
MCP26_API const char *mcp26_dtype_name(uint32_t dtype);

typedef struct {
    const char *name;
    const char *target;  /* what it was compiled for, e.g. "rock5b" */
    const char *variant; /* the code variant that was picked for this processor */
    const char *isa;     /* "x86-64" or "aarch64" */
    const void *meta;    /* the metadata FlatBuffer (schema/mcp26.fbs) */
    uint64_t meta_bytes;
    uint64_t file_bytes;
    uint64_t code_bytes;    /* of the picked variant */
    uint64_t weights_bytes; /* of all shards */
    uint64_t arena_bytes;   /* activations, a session */
    uint64_t state_bytes;   /* what lives across runs, a session */
    uint64_t scratch_bytes; /* a worker */
    uint32_t format_major, format_minor;
    uint32_t needs_major, needs_minor; /* the least runtime version */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t symbol_count;
    uint32_t step_count;
    uint32_t shard_count;
    uint32_t golden_count;
    uint32_t section_count;
    uint32_t unbounded;   /* 1: some size has no bound, so memory may grow while it runs */
    uint32_t code_mapped; /* 1: code runs straight from the file; 0: from a copy (memory, noexec mount) */
} mcp26_model_info;

typedef struct {
    const char *name;
    const int64_t *dims;          /* rank sizes; -1 where symbolic */
    const char *const *dim_texts; /* rank texts such as "N" or "2*N + 1"; NULL where the size is a constant */
    const int32_t *dim_symbols;   /* rank symbol indices; -1 for constants and expressions */
    uint64_t max_bytes;           /* largest size within the bounds; 0 where unbounded */
    uint32_t dtype;               /* an mcp26_dtype */
    uint32_t rank;
    uint32_t has_default;         /* 1: an input that may stay unbound: it then holds a value from the artifact */
    uint32_t reserved;
} mcp26_tensor_info;

typedef struct {
    const char *name;
    int64_t min;
    int64_t max; /* -1: no bound */
} mcp26_symbol_info;

typedef struct {
    const char *name; /* the ONNX node(s) it stands for */
    const char *op;   /* "Conv+Clip+Add" */
    const char *kernel;
    const char *shape; /* output shape, for people; may be empty */
    uint64_t flops;
    uint64_t bytes; /* least traffic: operands and result once */
    float predicted_us;
    uint32_t shard_count;
    const uint32_t *shards; /* indices of the shards it reads */
} mcp26_step_info;

/* Accessors return NULL for an index out of range. */
MCP26_API const mcp26_model_info *mcp26_model_get_info(const mcp26_model *model);
MCP26_API const mcp26_tensor_info *mcp26_model_input(const mcp26_model *model, uint32_t index);
MCP26_API const mcp26_tensor_info *mcp26_model_output(const mcp26_model *model, uint32_t index);
MCP26_API const mcp26_symbol_info *mcp26_model_symbol(const mcp26_model *model, uint32_t index);
MCP26_API const mcp26_step_info *mcp26_model_step(const mcp26_model *model, uint32_t index);

/* The bytes of a section of the file, its kind (docs/format.md) and size. */
MCP26_API const void *mcp26_model_section(const mcp26_model *model, uint32_t index, uint32_t *kind, uint64_t *bytes);

/* ---- Session: memory, threads and bindings to run a model with ---- */

typedef struct mcp26_session mcp26_session;

typedef enum {
    MCP26_AFFINITY_ALL = 0,   /* threads run where the system puts them */
    MCP26_AFFINITY_BIG = 1,   /* on the fastest kind of core */
    MCP26_AFFINITY_LITTLE = 2 /* on the slowest kind of core */
} mcp26_affinity;

typedef struct {
    uint32_t struct_size;   /* sizeof(mcp26_session_options) */
    uint32_t threads;       /* the calling thread counts; 0: one a core of the chosen affinity */
    uint32_t affinity;      /* an mcp26_affinity, for the threads that the session starts; see mcp26_place_thread */
    uint32_t reserved;      /* 0 */
    uint64_t memory_budget; /* bytes to stay within: the session's own and resident weights, which are then
                               released behind the step that read them; 0: no limit */
    void *memory;           /* for the session and all it holds, aligned to 64; NULL: the library allocates */
    uint64_t memory_size;   /* at least mcp26_session_size */
} mcp26_session_options;

/* Bytes that a session with these options needs; 0 for invalid options. Unbounded artifacts may take more later. */
MCP26_API uint64_t mcp26_session_size(const mcp26_model *model, const mcp26_session_options *options);

/* *session is NULL after a failure. */
MCP26_API mcp26_status mcp26_session_create(mcp26_model *model, const mcp26_session_options *options,
                                            mcp26_session **session, mcp26_error *error);
MCP26_API void mcp26_session_close(mcp26_session *session);

/* Move the CALLING thread to that kind of core among those that it may use; it is worker 0 of the sessions it runs.
 * MCP26_ERR_IO where refused. */
MCP26_API mcp26_status mcp26_place_thread(uint32_t affinity);

/* Why the last bind, plan, run, profile or golden call failed; empty if it did not. Valid until the next such call. */
MCP26_API const char *mcp26_session_message(const mcp26_session *session);

/* Threads that run, the calling one included. */
MCP26_API uint32_t mcp26_session_threads(const mcp26_session *session);

/* Bytes that the session holds now, growth included; weights and code are the model's. */
MCP26_API uint64_t mcp26_session_bytes(const mcp26_session *session);

/* ---- Bind and run ---- */

/* Read input `index` from `data` (row-major, `bytes` long, aligned to the element) in every run from now on; nothing is
 * copied, so it must stay valid and unchanged while one runs. `dtype` 0 is not checked. After a failure the binding
 * that was there stays. The shape is copied. `shape` and `data` NULL give an input its default back, where it has one. */
MCP26_API mcp26_status mcp26_session_bind_input(mcp26_session *session, uint32_t index, uint32_t dtype,
                                                const int64_t *shape, uint32_t rank, const void *data, uint64_t bytes);

/* Write output `index` to `data`, which holds `capacity` bytes. Unbound outputs (and `data` NULL: unbind) go to memory
 * of the session. Must not overlap an input or another output. */
MCP26_API mcp26_status mcp26_session_bind_output(mcp26_session *session, uint32_t index, void *data, uint64_t capacity);

/* Resolve symbols and output shapes from the bound inputs, without running: afterwards mcp26_session_output_shape tells
 * the sizes that do not depend on data, so that an output of the right size can be bound. run does it by itself. */
MCP26_API mcp26_status mcp26_session_plan(mcp26_session *session);

MCP26_API mcp26_status mcp26_session_run(mcp26_session *session);

/* A tensor where it lies. */
typedef struct {
    void *data;
    const int64_t *shape; /* rank sizes, -1 where not known yet */
    uint64_t bytes;       /* what the shape takes; 0 where not known yet */
    uint32_t rank;
    uint32_t dtype;
} mcp26_view;

/* Output `index` after a run; valid until the next run, binding or close. */
MCP26_API mcp26_status mcp26_session_output(const mcp26_session *session, uint32_t index, mcp26_view *output);

/* Output `index`'s shape alone; `shape` has room for the rank. */
MCP26_API mcp26_status mcp26_session_output_shape(const mcp26_session *session, uint32_t index, int64_t *shape);

/* Forget what earlier runs left (KV cache, recurrent state): all zero, as after create. */
MCP26_API void mcp26_session_reset_state(mcp26_session *session);

/* End the current run soon with MCP26_ERR_CANCELLED; without one, the next. From any thread or signal handler. */
MCP26_API void mcp26_session_cancel(mcp26_session *session);

/* Take (on = 1) or stop taking the time of each step from the next run on. */
MCP26_API mcp26_status mcp26_session_profile(mcp26_session *session, int32_t on);

/* Nanoseconds that each step took in the last profiled run, step_count entries; zeros before. */
MCP26_API const uint64_t *mcp26_session_profile_ns(const mcp26_session *session);

/* ---- Self-test: inputs and expected outputs inside the artifact ---- */

typedef struct {
    float rtol, atol;
    uint32_t input_count, output_count;
} mcp26_golden_case;

/* `data` is NULL where the artifact does not hold all elements: an input that mcp26_session_run_golden computes from a
 * seed, or a large output, of which mcp26_session_compare_golden compares one element and the mean of every block. */
typedef struct {
    const void *data;
    const int64_t *shape;
    uint64_t bytes; /* of the whole tensor */
    uint32_t rank;
    uint32_t index; /* of the model's input or output */
} mcp26_golden_tensor;

MCP26_API const mcp26_golden_case *mcp26_model_golden(const mcp26_model *model, uint32_t golden);
MCP26_API const mcp26_golden_tensor *mcp26_model_golden_input(const mcp26_model *model, uint32_t golden, uint32_t i);
MCP26_API const mcp26_golden_tensor *mcp26_model_golden_output(const mcp26_model *model, uint32_t golden, uint32_t i);

/* Reset the state, bind the case's inputs and run. The inputs stay bound. The first call for a case takes memory for the
 * inputs that are computed, which the session keeps; MCP26_ERR_MEMORY where there is none. */
MCP26_API mcp26_status mcp26_session_run_golden(mcp26_session *session, uint32_t golden);

/* How an output compares: floats by |got - want| <= atol + rtol * |want| (NaN equals NaN), all else exactly;
 * means of blocks with the mean of |got| for |want|. */
typedef struct {
    uint64_t elements;    /* compared: all, or the number of blocks */
    uint64_t mismatches;  /* of those */
    uint64_t worst_index; /* row-major, of the largest excess over the tolerance; the block's first where its mean has it */
    double worst_got, worst_want;
    double max_abs_difference;
} mcp26_comparison;

/* Compare the case's i-th expected output with what the last run left. MCP26_ERR_GOLDEN where they differ, *result (may
 * be NULL) says by how much. */
MCP26_API mcp26_status mcp26_session_compare_golden(mcp26_session *session, uint32_t golden, uint32_t i,
                                                    mcp26_comparison *result);

#ifdef __cplusplus
}
#endif
#endif
