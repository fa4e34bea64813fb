#include "session.h"

#include "status.h"

#include <inttypes.h>
#include <string.h>

enum { ALIGNMENT = 64, MAX_THREADS = 1024 };

/* Hands out parts of one block; with `base` NULL it only counts. */
typedef struct {
    uint8_t *base;
    uint64_t used;
    int overflow; /* the sizes exceed what can be addressed */
} carver;

static void *carve(carver *from, uint64_t count, uint64_t size) {
    const uint64_t limit = UINT64_MAX >> 8;
    if (from->overflow || (size != 0 && count > (limit - from->used) / size)) {
        from->overflow = 1;
        return NULL;
    }
    void *part = from->base != NULL ? from->base + from->used : NULL;
    from->used += (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return part;
}

/* Options with defaults filled in; 0 where they are invalid. */
static int complete(const mcp26_session_options *options, mcp26_session_options *full) {
    *full = (mcp26_session_options){.struct_size = sizeof *full};
    if (options != NULL) {
        if (options->struct_size < sizeof *options) return 0;
        *full = *options;
    }
    if (full->affinity > MCP26_AFFINITY_LITTLE || full->threads > MAX_THREADS || full->reserved != 0) return 0;
    if (full->threads == 0) full->threads = mcp26_os_core_count(full->affinity);
    if (full->threads > MAX_THREADS) full->threads = MAX_THREADS;
    return 1;
}

static void place_tensors(carver *from, const mcp26_tensor_info *infos, uint32_t count, mcp26_tensor **tensors) {
    *tensors = carve(from, count, sizeof **tensors);
    for (uint32_t i = 0; i < count; i++) {
        int64_t *shape = carve(from, infos[i].rank, sizeof *shape);
        if (shape != NULL) {
            (*tensors)[i].shape = shape;
            (*tensors)[i].rank = infos[i].rank;
        }
    }
}

/* Lay a session out: the structure, its tables, and then what compiled code works in. NULL when only counting. */
static mcp26_session *lay_out(const mcp26_model *model, uint32_t threads, carver *from) {
    const mcp26_model_info *info = &model->info;
    mcp26_session counted = {0};
    mcp26_session *placed = carve(from, 1, sizeof *placed);
    mcp26_session *session = placed != NULL ? placed : &counted;
    place_tensors(from, model->inputs, info->input_count, &session->inputs);
    place_tensors(from, model->outputs, info->output_count, &session->outputs);
    session->bound = carve(from, info->input_count, sizeof *session->bound);
    session->owned = carve(from, info->output_count, sizeof *session->owned);
    session->shard_states = carve(from, info->shard_count, sizeof *session->shard_states);
    session->shard_uses = carve(from, info->shard_count, sizeof *session->shard_uses);
    session->profile = carve(from, info->step_count, sizeof *session->profile);
    session->pool.workers = carve(from, threads, sizeof *session->pool.workers);
    session->env.symbols = carve(from, info->symbol_count, sizeof *session->env.symbols);
    session->env.offsets = carve(from, model->offset_count, sizeof *session->env.offsets);
    for (uint32_t i = 0; i < info->output_count; i++) {
        uint8_t *data = carve(from, model->outputs[i].max_bytes, 1);
        if (placed != NULL) session->owned[i] = (mcp26_owned_output){data, model->outputs[i].max_bytes, 0};
    }
    session->env.state = carve(from, info->state_bytes, 1);
    session->env.scratch_stride = (info->scratch_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (session->env.scratch_stride < info->scratch_bytes) from->overflow = 1;
    session->env.scratch = carve(from, threads, session->env.scratch_stride);
    session->env.arena = carve(from, info->arena_bytes, 1);
    return placed;
}

uint64_t mcp26_session_size(const mcp26_model *model, const mcp26_session_options *options) {
    mcp26_session_options full;
    carver counter = {0};
    if (model == NULL || !complete(options, &full)) return 0;
    (void)lay_out(model, full.threads, &counter);
    return counter.overflow ? UINT64_MAX : counter.used;
}

static void fill_env(mcp26_session *session, uint32_t threads) {
    mcp26_env *env = &session->env;
    const mcp26_model *model = session->model;
    env->abi_version = MCP26_ABI_VERSION;
    env->env_size = sizeof *env;
    env->shards = model->shard_table;
    env->inputs = session->inputs;
    env->outputs = session->outputs;
    env->arena_bytes = model->info.arena_bytes;
    env->state_bytes = model->info.state_bytes;
    env->workers = threads;
    env->parallel_for = mcp26_session_parallel_for;
    env->grow = mcp26_session_grow;
    env->cancel = &session->cancel;
    env->runtime = session;
}

/* Split the budget: what the session's block leaves is for weights, and must hold those of any one step. */
static mcp26_status set_budget(mcp26_session *session, uint64_t budget, mcp26_error *error) {
    session->memory_budget = budget;
    session->weights_budget = UINT64_MAX;
    if (budget == 0) return MCP26_OK;
    uint32_t step;
    uint64_t least = mcp26_residency_least(session->model, &step);
    if (budget < session->block_bytes || budget - session->block_bytes < least) {
        return mcp26_fail(error, MCP26_ERR_MEMORY,
                          "a memory budget of %" PRIu64 " bytes is too small: the session takes %" PRIu64
                          ", the weights of step %u %" PRIu64,
                          budget, session->block_bytes, step, least);
    }
    session->weights_budget = budget - session->block_bytes;
    if (session->weights_budget >= session->model->info.weights_bytes) session->weights_budget = UINT64_MAX;
    return MCP26_OK;
}

/* The block that a session of `bytes` bytes lies in: the caller's, or new. */
static mcp26_status find_block(const mcp26_session_options *options, uint64_t bytes, uint8_t **base,
                               mcp26_error *error) {
    if (options->memory == NULL) {
        *base = mcp26_os_allocate(bytes);
        if (*base == NULL)
            return mcp26_fail(error, MCP26_ERR_MEMORY, "no memory for a session of %" PRIu64 " bytes", bytes);
        return MCP26_OK;
    }
    if ((uintptr_t)options->memory % ALIGNMENT != 0) {
        return mcp26_fail(error, MCP26_ERR_ALIGNMENT, "a session's memory must be aligned to %d bytes", ALIGNMENT);
    }
    if (options->memory_size < bytes) {
        return mcp26_fail(error, MCP26_ERR_MEMORY, "the session needs %" PRIu64 " bytes, %" PRIu64 " were given", bytes,
                          options->memory_size);
    }
    *base = options->memory;
    return MCP26_OK;
}

mcp26_status mcp26_session_create(mcp26_model *model, const mcp26_session_options *options, mcp26_session **session,
                                  mcp26_error *error) {
    mcp26_session_options full;
    if (session == NULL) return mcp26_fail(error, MCP26_ERR_ARGUMENT, "no place for the session");
    *session = NULL;
    if (model == NULL) return mcp26_fail(error, MCP26_ERR_ARGUMENT, "no model");
    if (!complete(options, &full)) return mcp26_fail(error, MCP26_ERR_ARGUMENT, "invalid session options");
    uint64_t bytes = mcp26_session_size(model, &full);
    carver block = {0};
    mcp26_status status = find_block(&full, bytes, &block.base, error);
    if (status != MCP26_OK) return status;

    /* The arena comes last and needs no zeros: it is not touched, so that its pages appear when they are used. */
    if (full.memory != NULL) memset(block.base, 0, (size_t)(bytes - model->info.arena_bytes));
    mcp26_session *made = lay_out(model, full.threads, &block);
    made->model = model;
    made->block = full.memory == NULL ? block.base : NULL;
    made->block_bytes = bytes;
    made->shards_unused = model->info.shard_count;
    atomic_fetch_add(&model->references, 1);
    fill_env(made, full.threads);
    mcp26_session_init_bindings(made);
    status = set_budget(made, full.memory_budget, error);
    if (status == MCP26_OK) status = mcp26_residency_open_defaults(made, error);
    if (status == MCP26_OK) {
        status = mcp26_pool_start(&made->pool, made->pool.workers, full.threads, full.affinity, error);
    }
    if (status != MCP26_OK) {
        mcp26_session_close(made);
        return status;
    }
    *session = made;
    mcp26_succeed(error);
    return MCP26_OK;
}

void mcp26_session_close(mcp26_session *session) {
    if (session == NULL) return;
    mcp26_model *model = session->model;
    mcp26_pool_stop(&session->pool);
    for (uint32_t i = 0; i < model->info.output_count; i++) {
        if (session->owned[i].grown != 0) mcp26_os_free(session->owned[i].data, session->owned[i].grown);
    }
    if (session->drawn_bytes != 0) mcp26_os_free(session->drawn, session->drawn_bytes);
    if (session->arena_grown != 0) mcp26_os_free(session->env.arena, session->arena_grown);
    mcp26_os_free(session->block, session->block_bytes);
    mcp26_model_drop(model);
}

mcp26_status mcp26_place_thread(uint32_t affinity) {
    if (affinity > MCP26_AFFINITY_LITTLE) return MCP26_ERR_ARGUMENT;
    return mcp26_os_place_thread(affinity) == 0 ? MCP26_OK : MCP26_ERR_IO;
}

const char *mcp26_session_message(const mcp26_session *session) {
    return session != NULL ? session->error.message : "";
}

uint32_t mcp26_session_threads(const mcp26_session *session) { return session != NULL ? session->env.workers : 0; }

uint64_t mcp26_session_bytes(const mcp26_session *session) {
    return session != NULL ? session->block_bytes + session->grown_bytes : 0;
}

void mcp26_session_reset_state(mcp26_session *session) {
    if (session != NULL && session->env.state_bytes != 0)
        memset(session->env.state, 0, (size_t)session->env.state_bytes);
}

void mcp26_session_cancel(mcp26_session *session) {
    if (session != NULL) __atomic_store_n(&session->cancel, 1, __ATOMIC_RELAXED);
}

mcp26_status mcp26_session_profile(mcp26_session *session, int32_t on) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    session->profiling = on != 0;
    return MCP26_OK;
}

const uint64_t *mcp26_session_profile_ns(const mcp26_session *session) {
    return session != NULL ? session->profile : NULL;
}
