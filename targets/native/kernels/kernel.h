/* kernel.h: what every generated translation unit starts with. */
#ifndef MCP26_KERNEL_H
#define MCP26_KERNEL_H

#include "mcp26_abi.h"
#include "simd.h"

#define MCP26_HIDDEN __attribute__((visibility("hidden")))

/* No tensor takes more bytes (mcpc/dim_range.py): below this no size or sum of offsets leaves 64 bits. */
#define MOST_BYTES ((int64_t)1 << 47)

/* Sizes that depend on symbols. A quotient by 0 is 0: sizes of an invalid run must not trap. */
MCP26_INLINE int64_t floor_div(int64_t a, int64_t b) {
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
MCP26_INLINE int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
MCP26_INLINE int64_t min_size(int64_t a, int64_t b) { return a < b ? a : b; }
MCP26_INLINE int64_t max_size(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
