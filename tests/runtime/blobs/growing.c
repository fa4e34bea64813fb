/* Compiled code for an unbounded model: the indices of the non-zero elements.
 *
 * input v int32 [L], output found int64 [M]; L has no bound, M is known after step 0. Step 0 collects in the arena,
 * which it makes larger while it runs; step 1 copies to the output.
 */
#include "mcp26_abi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int32_t mcp26_plan(mcp26_env *env, uint32_t step) {
    env->plan_bytes = 64;
    if (step > 0) env->outputs[0].shape[0] = env->symbols[1];
    return 0;
}

static int64_t collect(mcp26_env *env) {
    const int32_t *v = (const int32_t *)env->inputs[0].data;
    int64_t found = 0;
    for (int64_t i = 0; i < env->symbols[0]; i++) {
        if (v[i] == 0) continue;
        int32_t status = env->grow(env, (uint64_t)(found + 1) * sizeof(int64_t));
        if (status < 0) return status;
        ((int64_t *)env->arena)[found++] = i;
    }
    env->symbols[1] = found;
    return mcp26_plan(env, 1) < 0 ? MCP26_STEP_DATA : 1;
}

EXPORT int64_t mcp26_entry(mcp26_env *env, uint32_t step) {
    if (step == 0) return collect(env);
    for (int64_t i = 0; i < env->symbols[1]; i++) {
        ((int64_t *)env->outputs[0].data)[i] = ((const int64_t *)env->arena)[i];
    }
    return 2;
}
