/* table.h: functions of a byte, by a table of all 256. */
#ifndef MCP26_TABLE_H
#define MCP26_TABLE_H

#include "simd.h"

enum { TABLE_UNIT = 4096 };

/* Units of table_bytes: blocks of TABLE_UNIT elements. */
MCP26_INLINE int64_t table_units(int64_t n) { return mcp26_ceil_div(n, TABLE_UNIT); }

#if defined(__AVX2__)
/* Half a table as what changes from each row of 16 to the next: the rows up to a byte's own add up to its result. A
 * shuffle gives 0 where an index is negative, as it is for all rows behind. */
enum { TABLE_LANES = 32 };
typedef int8_t table_lanes __attribute__((vector_size(32)));
typedef int8_t table_row __attribute__((vector_size(16)));
typedef struct {
    table_row rows[16];
} table_parts;

MCP26_INLINE table_parts table_load(const uint8_t *table) {
    table_parts parts;
    table_row before = {0};
    for (int64_t k = 0; k < 16; k++) {
        table_row row;
        __builtin_memcpy(&row, table + 16 * k, sizeof row);
        parts.rows[k] = k == 8 ? row : row ^ before;
        before = row;
    }
    return parts;
}

MCP26_INLINE void table_apply(const table_parts *parts, const uint8_t *x, uint8_t *y) {
    table_lanes index[2], sums[2];
    __builtin_memcpy(&index[0], x, sizeof index[0]);
    table_lanes is_high = index[0] < 0;
    index[1] = index[0] ^ -128;
    MCP26_UNROLL for (int64_t half = 0; half < 2; half++) {
        sums[half] = (table_lanes){0};
        MCP26_UNROLL for (int64_t k = 0; k < 8; k++) {
            table_row row = parts->rows[8 * half + k];
            table_lanes both = __builtin_shufflevector(row, row, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0,
                                                       1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            sums[half] ^= (table_lanes)__builtin_ia32_pshufb256((__typeof__(__builtin_ia32_pshufb256(both, both)))both,
                                                                index[half] - (int8_t)(16 * k));
        }
    }
    table_lanes result = (sums[1] & is_high) | (sums[0] & ~is_high);
    __builtin_memcpy(y, &result, sizeof result);
}
#elif defined(__aarch64__)
enum { TABLE_LANES = 16 };
typedef int8_t table_lanes __attribute__((vector_size(16)));
typedef struct {
    table_lanes rows[16];
} table_parts;

MCP26_INLINE table_parts table_load(const uint8_t *table) {
    table_parts parts;
    __builtin_memcpy(&parts, table, sizeof parts);
    return parts;
}

/* An index beyond its 64 leaves what there was. */
MCP26_INLINE void table_apply(const table_parts *parts, const uint8_t *x, uint8_t *y) {
    const table_lanes *t = parts->rows;
    table_lanes index, result = {0};
    __builtin_memcpy(&index, x, sizeof index);
    MCP26_UNROLL for (int64_t k = 0; k < 16; k += 4) {
        result = (table_lanes)__builtin_neon_vqtbx4q_v(result, t[k], t[k + 1], t[k + 2], t[k + 3],
                                                       index - (int8_t)(16 * k), 48 /* uint8x16 */);
    }
    __builtin_memcpy(y, &result, sizeof result);
}
#endif

/* y[i] = table[x[i]]. y may be x. */
MCP26_INLINE void table_bytes(int64_t n, const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t begin,
                              int64_t end) {
    int64_t i = begin * TABLE_UNIT, stop = mcp26_min(n, end * TABLE_UNIT);
    table_parts parts = table_load(table);
    for (; i + TABLE_LANES <= stop; i += TABLE_LANES) table_apply(&parts, x + i, y + i);
    for (; i < stop; i++) y[i] = table[x[i]];
}

#endif
