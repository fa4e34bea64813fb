/* Brings weights in ahead of the steps that read them, and lets go of them behind, where a budget says so.
 *
 * Shards are parts of one read-only mapping: their addresses never change, only whether their pages are in memory. So
 * sessions need no agreement; what one releases, another at worst reads from the page cache again.
 */
#include "session.h"

uint64_t mcp26_residency_least(const mcp26_model *model, uint32_t *step) {
    uint64_t most = 0;
    *step = 0;
    for (uint32_t i = 0; i < model->info.step_count; i++) {
        uint64_t bytes = 0;
        for (uint32_t j = 0; j < model->steps[i].shard_count; j++)
            bytes += model->shards[model->steps[i].shards[j]].size;
        if (bytes <= most) continue;
        most = bytes;
        *step = i;
    }
    return most;
}

static int is_file(const mcp26_session *session) { return session->model->file.bytes != NULL; }

/* Release until `bytes` more fit. The victim is the shard used last before `since`: steps come round in the same order,
 * so that one is needed again latest. */
static int make_room(mcp26_session *session, uint64_t bytes, uint64_t since) {
    const mcp26_model *model = session->model;
    while (bytes > session->weights_budget || session->weights_resident > session->weights_budget - bytes) {
        uint32_t victim = UINT32_MAX;
        for (uint32_t i = 0; i < model->info.shard_count; i++) {
            if (session->shard_states[i] == MCP26_SHARD_UNSEEN || session->shard_uses[i] >= since) continue;
            if (victim == UINT32_MAX || session->shard_uses[i] > session->shard_uses[victim]) victim = i;
        }
        if (victim == UINT32_MAX) return 0;
        if (is_file(session)) mcp26_os_file_release(model->shards[victim].base, model->shards[victim].size);
        session->shards_unused += session->shard_states[victim] == MCP26_SHARD_IN_USE;
        session->shard_states[victim] = MCP26_SHARD_UNSEEN;
        session->weights_resident -= model->shards[victim].size;
    }
    return 1;
}

/* Count a shard as resident, if it fits beside what was used from `since` on. */
static int admit(mcp26_session *session, uint32_t shard, uint64_t since) {
    if (session->shard_states[shard] != MCP26_SHARD_UNSEEN) return 1;
    uint64_t size = session->model->shards[shard].size;
    if (session->weights_budget != UINT64_MAX && !make_room(session, size, since)) return 0;
    session->weights_resident += size;
    session->shard_states[shard] = MCP26_SHARD_AHEAD;
    return 1;
}

mcp26_status mcp26_residency_open_defaults(mcp26_session *session, mcp26_error *error) {
    mcp26_model *model = session->model;
    for (uint32_t i = 0; i < model->default_count; i++) {
        uint32_t shard = model->defaults[i].shard;
        if (session->shard_states[shard] == MCP26_SHARD_IN_USE) continue;
        if (model->verify == MCP26_VERIFY_LAZY) {
            mcp26_status status = mcp26_model_verify_shard(model, shard, error);
            if (status != MCP26_OK) return status;
        }
        session->shard_states[shard] = MCP26_SHARD_IN_USE;
        session->weights_resident += model->shards[shard].size;
        session->shards_unused--;
    }
    return MCP26_OK;
}

mcp26_status mcp26_residency_enter(mcp26_session *session, uint32_t step) {
    mcp26_model *model = session->model;
    const mcp26_step_info *now = &model->steps[step];
    const uint64_t clock = ++session->clock;
    for (uint32_t j = 0; j < now->shard_count; j++) session->shard_uses[now->shards[j]] = clock;
    for (uint32_t j = 0; j < now->shard_count; j++) {
        uint32_t shard = now->shards[j];
        (void)admit(session, shard, clock); /* the budget holds any one step: create saw to that */
        if (session->shard_states[shard] == MCP26_SHARD_IN_USE) continue;
        if (is_file(session)) mcp26_os_file_populate(model->shards[shard].base, model->shards[shard].size);
        if (model->verify == MCP26_VERIFY_LAZY) {
            mcp26_status status = mcp26_model_verify_shard(model, shard, &session->error);
            if (status != MCP26_OK) return status;
        }
        session->shard_states[shard] = MCP26_SHARD_IN_USE;
        session->shards_unused--;
    }
    if (step + 1 >= model->info.step_count) return MCP26_OK;
    const mcp26_step_info *next = &model->steps[step + 1];
    for (uint32_t j = 0; j < next->shard_count; j++) {
        uint32_t shard = next->shards[j];
        if (session->shard_states[shard] != MCP26_SHARD_UNSEEN || !admit(session, shard, clock)) continue;
        session->shard_uses[shard] = clock;
        if (is_file(session)) mcp26_os_file_read_ahead(model->shards[shard].base, model->shards[shard].size);
    }
    return MCP26_OK;
}
