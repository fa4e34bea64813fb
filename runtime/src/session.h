/* session.h: what a session holds. session.c makes it, binding.c fits it to its tensors, run.c runs it, residency.c
 * looks after the weights. All of it but memory grown later lies in one block. */
#ifndef MCP26_SESSION_H
#define MCP26_SESSION_H

#include "model.h"
#include "pool.h"

/* Memory of an output that the caller did not bind. */
typedef struct {
    uint8_t *data;
    uint64_t capacity;
    uint64_t grown; /* bytes to free: 0 where `data` lies in the session's block */
} mcp26_owned_output;

/* How far a weight shard has come in this session. */
typedef enum { MCP26_SHARD_UNSEEN = 0, MCP26_SHARD_AHEAD = 1, MCP26_SHARD_IN_USE = 2 } mcp26_shard_state;

struct mcp26_session {
    mcp26_env env; /* env.runtime is the session */
    mcp26_model *model;
    mcp26_error error;
    uint32_t cancel; /* env.cancel */

    /* Bindings. */
    uint8_t *bound;         /* per input: 1 where bound */
    uint32_t unbound_count; /* inputs that are not */
    uint32_t stale;         /* 1: input shapes changed since symbols and plan were made */
    uint32_t outputs_stale; /* 1: outputs were bound anew since their capacity was checked */
    uint32_t data_symbols;  /* 1: steps set symbols too, so every run resolves and plans anew */
    mcp26_tensor *inputs, *outputs;
    mcp26_owned_output *owned;

    /* Weights. */
    uint8_t *shard_states;   /* an mcp26_shard_state each */
    uint64_t *shard_uses;    /* clock of the last use */
    uint64_t clock;          /* steps entered */
    uint32_t shards_unused;  /* not yet in use */
    uint64_t weights_budget; /* bytes of shards that may be resident; UINT64_MAX: all */
    uint64_t weights_resident;

    uint64_t *profile; /* nanoseconds per step */
    uint32_t profiling;

    mcp26_pool pool;
    void *block; /* what mcp26_os_free gets; NULL for the caller's memory */
    uint64_t block_bytes;
    uint64_t memory_budget; /* 0: none */
    uint8_t *drawn;         /* inputs of a golden case, in memory of their own */
    uint64_t drawn_bytes;   /* of that memory */
    uint64_t arena_grown;   /* bytes of an arena that was grown out of the block */
    uint64_t grown_bytes;   /* all that lies outside the block */
};

/* ---- binding.c ---- */

/* Static shapes into the bindings, at create. */
void mcp26_session_init_bindings(mcp26_session *session);

/* Everything that must hold before step 0: inputs bound, symbols resolved, planned, outputs large enough. */
mcp26_status mcp26_session_prepare(mcp26_session *session);

/* Check that outputs whose shape is known fit; grow the session's own ones that have no bound. */
mcp26_status mcp26_session_fit_outputs(mcp26_session *session);

/* ---- run.c ---- */

/* mcp26_env.parallel_for and mcp26_env.grow. */
int32_t mcp26_session_parallel_for(mcp26_env *env, mcp26_body body, void *arg, int64_t n, int64_t grain);
int32_t mcp26_session_grow(mcp26_env *env, uint64_t bytes);

/* Turn the negative status that compiled code returned in `step` into the caller's, with a message. */
mcp26_status mcp26_session_step_failed(mcp26_session *session, uint32_t step, int64_t code);

/* Memory outside the block, within the budget; NULL when exhausted. */
void *mcp26_session_grow_memory(mcp26_session *session, uint64_t bytes);

/* ---- residency.c ---- */

/* The largest sum of shards that one step reads, and that step. */
uint64_t mcp26_residency_least(const mcp26_model *model, uint32_t *step);

/* Whether steps must announce what they read: until all shards have been in use, and always with a budget. */
static inline int mcp26_residency_watches(const mcp26_session *session) {
    return session->shards_unused != 0 || session->weights_budget != UINT64_MAX;
}

/* Make ready the shards that hold default values of inputs: no step announces those. */
mcp26_status mcp26_residency_open_defaults(mcp26_session *session, mcp26_error *error);

/* Make the shards of `step` ready, fetch those of the one after it, release what no longer fits. */
mcp26_status mcp26_residency_enter(mcp26_session *session, uint32_t step);

#endif
