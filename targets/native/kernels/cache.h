/* cache.h: new rows written into a cache (TensorScatter) or behind what it holds, from a place on that is data. */
#ifndef MCP26_CACHE_H
#define MCP26_CACHE_H

#include "index.h"

/* y is the cache [batch][prefix][length][run], with update [batch][prefix][count][run] from row starts[b] on (0 without
 * starts), with `is_circular` modulo length. A run is in bytes. Units: batch x prefix. */
MCP26_INLINE int32_t cache_write(mcp26_env *env, int64_t prefix, int64_t length, int64_t count, int64_t run,
                                 const uint8_t *cache, const uint8_t *update, const int64_t *starts,
                                 int64_t is_circular, uint8_t *y, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t start = starts ? starts[u / prefix] : 0;
        int32_t status = index_check(env, start, 0, is_circular ? INT64_MAX : length - count);
        if (status) return status;
        move_run_8(y + u * length * run, cache + u * length * run, length * run);
        if (is_circular && length > 0) start %= length;
        for (int64_t i = 0; i < count && length > 0; i++) {
            int64_t at = start + i;
            if (is_circular) at %= length;
            move_run_8(y + (u * length + at) * run, update + (u * count + i) * run, run);
        }
    }
    return 0;
}

/* y [batch][prefix][old + more][run] is the rows before starts[b] of the cache [batch][prefix][old][run] and, behind its
 * last, of `rest` [batch][prefix][more][run]; then `update` [batch][prefix][count][run]; then zeros. A run is in bytes.
 * Units: batch x prefix. */
MCP26_INLINE int32_t cache_append(mcp26_env *env, int64_t prefix, int64_t old, int64_t more, int64_t count, int64_t run,
                                  const uint8_t *cache, const uint8_t *rest, const uint8_t *update,
                                  const int64_t *starts, uint8_t *y, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t start = starts[u / prefix], kept = mcp26_min(start, old), length = old + more;
        int32_t status = index_check(env, start, 0, length - count);
        if (status) return status;
        uint8_t *to = y + u * length * run;
        move_run_8(to, cache + u * old * run, kept * run);
        move_run_8(to + kept * run, rest + u * more * run, (start - kept) * run);
        move_run_8(to + start * run, update + u * count * run, count * run);
        for (int64_t i = (start + count) * run; i < length * run; i++) to[i] = 0;
    }
    return 0;
}

#endif
