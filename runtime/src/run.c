/* Runs a session's steps. The common case, all weights seen and no profile wanted, costs two loads a step beside the
 * call. */
#include "session.h"

#include "status.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)MCP26_STEP_MEMORY == (int)MCP26_ERR_MEMORY && (int)MCP26_STEP_DATA == (int)MCP26_ERR_DATA &&
                   (int)MCP26_STEP_CANCELLED == (int)MCP26_ERR_CANCELLED,
               "compiled code and callers share these numbers");

int32_t mcp26_session_parallel_for(mcp26_env *env, mcp26_body body, void *arg, int64_t n, int64_t grain) {
    mcp26_session *session = env->runtime;
    return mcp26_pool_run(&session->pool, env, body, arg, n, grain);
}

void *mcp26_session_grow_memory(mcp26_session *session, uint64_t bytes) {
    uint64_t held = mcp26_session_bytes(session);
    if (session->memory_budget != 0 && (bytes > session->memory_budget || held > session->memory_budget - bytes)) {
        return NULL;
    }
    void *memory = mcp26_os_allocate(bytes);
    if (memory != NULL) session->grown_bytes += bytes;
    return memory;
}

int32_t mcp26_session_grow(mcp26_env *env, uint64_t bytes) {
    mcp26_session *session = env->runtime;
    if (bytes <= env->arena_bytes) return 0;
    if (!session->model->info.unbounded) return MCP26_STEP_MEMORY;
    uint64_t half_more = env->arena_bytes + env->arena_bytes / 2; /* so that growing little by little copies little */
    uint64_t wanted = bytes > half_more ? bytes : half_more;
    uint8_t *arena = mcp26_session_grow_memory(session, wanted);
    if (arena == NULL && wanted > bytes) arena = mcp26_session_grow_memory(session, wanted = bytes);
    if (arena == NULL) return MCP26_STEP_MEMORY;
    if (env->arena_bytes != 0) memcpy(arena, env->arena, (size_t)env->arena_bytes);
    if (session->arena_grown != 0) {
        mcp26_os_free(env->arena, session->arena_grown);
        session->grown_bytes -= session->arena_grown;
    }
    env->arena = arena;
    env->arena_bytes = session->arena_grown = wanted;
    return 0;
}

static void append_input_shapes(mcp26_session *session) {
    for (uint32_t i = 0; i < session->model->info.input_count; i++) {
        const mcp26_tensor *input = &session->inputs[i];
        mcp26_append(&session->error, "%s'%s' [", i == 0 ? "; the inputs: " : ", ", session->model->inputs[i].name);
        for (uint32_t d = 0; d < input->rank; d++) {
            mcp26_append(&session->error, "%s%" PRId64, d == 0 ? "" : ", ", input->shape[d]);
        }
        mcp26_append(&session->error, "]");
    }
}

static int is_input_size(const mcp26_model *model, uint32_t symbol) {
    for (uint32_t i = 0; i < model->info.input_count; i++) {
        for (uint32_t d = 0; d < model->inputs[i].rank; d++) {
            if (model->inputs[i].dim_symbols[d] == (int32_t)symbol) return 1;
        }
    }
    return 0;
}

/* What steps found, "y:1" being dimension 1 of tensor y. */
static void append_data_sizes(mcp26_session *session) {
    const char *separator = "; from the data: ";
    for (uint32_t s = 0; s < session->model->info.symbol_count; s++) {
        if (is_input_size(session->model, s)) continue;
        mcp26_append(&session->error, "%s%s = %" PRId64, separator, session->model->symbols[s].name,
                     session->env.symbols[s]);
        separator = ", ";
    }
}

/* What only the data could show, in words. */
static mcp26_status data_failed(mcp26_session *session, uint32_t step, const char *name) {
    const mcp26_fault *fault = &session->env.fault;
    mcp26_fail(&session->error, MCP26_ERR_DATA, "step %u (%s): ", step, name);
    switch (fault->kind) {
    case MCP26_DATA_INDEX:
        mcp26_append(&session->error, "index %" PRId64 " is outside [-%" PRId64 ", %" PRId64 ")", fault->index,
                     fault->bound, fault->bound);
        break;
    case MCP26_DATA_SHAPE:
        mcp26_append(&session->error, "sizes do not fit together: %" PRId64 " and %" PRId64, fault->index,
                     fault->bound);
        append_input_shapes(session);
        append_data_sizes(session);
        break;
    case MCP26_DATA_DIVIDE: mcp26_append(&session->error, "integer division by zero"); break;
    case MCP26_DATA_BOUND:
        mcp26_append(&session->error, "size %" PRId64, fault->index);
        if (fault->index < 0) mcp26_append(&session->error, " is negative, or no number of 64 bits");
        else mcp26_append(&session->error, " is beyond its bound %" PRId64, fault->bound);
        append_input_shapes(session);
        break;
    default: mcp26_append(&session->error, "the data led out of bounds"); break;
    }
    return MCP26_ERR_DATA;
}

mcp26_status mcp26_session_step_failed(mcp26_session *session, uint32_t step, int64_t code) {
    const mcp26_model *model = session->model;
    if (code == MCP26_STEP_DATA && session->env.fault.step < model->info.step_count) step = session->env.fault.step;
    const char *name = step < model->info.step_count ? model->steps[step].name : "plan";
    switch (code) {
    case MCP26_STEP_DATA: return data_failed(session, step, name);
    case MCP26_STEP_MEMORY:
        return mcp26_fail(&session->error, MCP26_ERR_MEMORY, "step %u (%s): memory is exhausted", step, name);
    case MCP26_STEP_CANCELLED:
        return mcp26_fail(&session->error, MCP26_ERR_CANCELLED, "cancelled in step %u (%s)", step, name);
    default: return mcp26_fail(&session->error, MCP26_ERR_STEP, "step %u (%s) returned %" PRId64, step, name, code);
    }
}

static inline int cancelled(const mcp26_session *session) {
    return __atomic_load_n(&session->cancel, __ATOMIC_RELAXED) != 0;
}

/* Nothing but the steps. */
static mcp26_status run_plain(mcp26_session *session) {
    const mcp26_entry_fn entry = session->model->entry;
    const uint32_t count = session->model->info.step_count;
    for (uint32_t step = 0; step != count;) {
        if (cancelled(session)) return mcp26_session_step_failed(session, step, MCP26_STEP_CANCELLED);
        int64_t next = entry(&session->env, step);
        if (next < 0 || next > count) return mcp26_session_step_failed(session, step, next);
        step = (uint32_t)next;
    }
    return MCP26_OK;
}

/* The steps, and around each what weights, growing outputs and the profile want. */
static mcp26_status run_watched(mcp26_session *session) {
    const mcp26_model *model = session->model;
    const uint32_t count = model->info.step_count;
    if (session->profiling) memset(session->profile, 0, count * sizeof *session->profile);
    for (uint32_t step = 0; step != count;) {
        if (cancelled(session)) return mcp26_session_step_failed(session, step, MCP26_STEP_CANCELLED);
        if (mcp26_residency_watches(session)) {
            mcp26_status status = mcp26_residency_enter(session, step);
            if (status != MCP26_OK) return status;
        }
        uint64_t start = session->profiling ? mcp26_os_nanoseconds() : 0;
        int64_t next = model->entry(&session->env, step);
        if (session->profiling) session->profile[step] += mcp26_os_nanoseconds() - start;
        if (next < 0 || next > count) return mcp26_session_step_failed(session, step, next);
        if (model->info.unbounded || session->data_symbols) {
            mcp26_status status = mcp26_session_fit_outputs(session);
            if (status != MCP26_OK) return status;
        }
        step = (uint32_t)next;
    }
    return MCP26_OK;
}

mcp26_status mcp26_session_run(mcp26_session *session) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    mcp26_succeed(&session->error);
    if (session->unbound_count != 0 || session->stale || session->data_symbols || session->outputs_stale) {
        mcp26_status status = mcp26_session_prepare(session);
        if (status != MCP26_OK) return status;
    }
    session->env.fault = (mcp26_fault){0};
    int plain = !session->profiling && !session->model->info.unbounded && !session->data_symbols &&
                !mcp26_residency_watches(session);
    mcp26_status status = plain ? run_plain(session) : run_watched(session);
    if (cancelled(session)) __atomic_store_n(&session->cancel, 0, __ATOMIC_RELAXED); /* it was meant for this run */
    return status;
}
