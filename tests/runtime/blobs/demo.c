/* Compiled code for a bounded model with symbols, weights, scratch, state and threads.
 *
 * inputs   x float32 [N, 4], index int32 [K]
 * outputs  y float32 [N, 4] = x * w0 + w2 + w3; picked float32 [K, 4] = (x * w0)[index] + w1; runs int64 [1]
 *
 * Shard i begins with the four floats of wi. index[0] = 77 waits for cancellation, 78 and 79 misbehave.
 */
#include "mcp26_abi.h"

#define EXPORT __attribute__((visibility("default")))

enum { COLUMNS = 4, STEPS = 4 };

static const float *weights(const mcp26_env *env, uint32_t shard) { return (const float *)env->shards[shard].base; }

static int32_t scale_rows(mcp26_env *env, void *arg, int64_t begin, int64_t end, uint32_t worker) {
    const float *x = (const float *)env->inputs[0].data, *w = weights(env, 0);
    float *scratch = (float *)(env->scratch + worker * env->scratch_stride), *scaled = (float *)env->arena;
    (void)arg;
    for (int64_t i = begin * COLUMNS; i < end * COLUMNS; i++) {
        scratch[i % COLUMNS] = x[i] * w[i % COLUMNS];
        scaled[i] = scratch[i % COLUMNS];
    }
    return 0;
}

static int64_t pick_rows(mcp26_env *env, uint32_t step) {
    const int32_t *index = (const int32_t *)env->inputs[1].data;
    const float *w = weights(env, 1), *scaled = (const float *)env->arena;
    float *picked = (float *)env->outputs[1].data;
    int64_t rows = env->symbols[0];
    for (int64_t k = 0; k < env->symbols[1]; k++) {
        int64_t row = index[k] < 0 ? index[k] + rows : index[k];
        if (row < 0 || row >= rows) {
            env->fault = (mcp26_fault){step, MCP26_DATA_INDEX, index[k], rows};
            return MCP26_STEP_DATA;
        }
        for (int64_t c = 0; c < COLUMNS; c++) picked[k * COLUMNS + c] = scaled[row * COLUMNS + c] + w[c];
    }
    return step + 1;
}

EXPORT int64_t mcp26_entry(mcp26_env *env, uint32_t step) {
    const int32_t request = env->symbols[1] > 0 ? *(const int32_t *)env->inputs[1].data : 0;
    int32_t status;
    switch (step) {
    case 0:
        if (request == 77) {
            while (*(const volatile uint32_t *)env->cancel == 0) continue;
            return MCP26_STEP_CANCELLED;
        }
        if (request == 78) return STEPS + 1;
        if (request == 79) return -77;
        status = env->parallel_for(env, scale_rows, 0, env->symbols[0], 1);
        return status < 0 ? status : 1;
    case 1: return pick_rows(env, step);
    case 2:
        for (int64_t i = 0; i < env->symbols[0] * COLUMNS; i++) {
            ((float *)env->outputs[0].data)[i] = ((const float *)env->arena)[i] + weights(env, 2)[i % COLUMNS];
        }
        return 3;
    default:
        for (int64_t i = 0; i < env->symbols[0] * COLUMNS; i++) {
            ((float *)env->outputs[0].data)[i] += weights(env, 3)[i % COLUMNS];
        }
        *(int64_t *)env->outputs[2].data = ++*(int64_t *)env->state;
        return STEPS;
    }
}

EXPORT int32_t mcp26_plan(mcp26_env *env, uint32_t step) {
    (void)step;
    env->outputs[0].shape[0] = env->symbols[0];
    env->outputs[1].shape[0] = env->symbols[1];
    env->plan_bytes = (uint64_t)env->symbols[0] * COLUMNS * sizeof(float);
    return 0;
}
