/* pairs.h: products of pairs of 16-bit integers, the two of a pair summed up, in 32 bits that wrap. */
#ifndef MCP26_PAIRS_H
#define MCP26_PAIRS_H

#include "simd.h"

typedef int16_t v8p __attribute__((ext_vector_type(16))); /* 8 pairs */

MCP26_INLINE v8p v8p_load(const int16_t *p) {
    v8p pairs;
    __builtin_memcpy(&pairs, p, sizeof pairs);
    return pairs;
}

MCP26_INLINE v8p v8p_splat(const int16_t *pair) {
    int32_t both;
    __builtin_memcpy(&both, pair, sizeof both);
    return (v8p)v8i_splat(both);
}

/* sums[i] + a[i][0] * b[i][0] + a[i][1] * b[i][1]. */
MCP26_INLINE v8i v8p_dot(v8i sums, v8p a, v8p b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    typedef int32_t plain __attribute__((vector_size(32)));
    return (v8i)__builtin_ia32_vpdpwssd256((plain)sums, (plain)a, (plain)b);
#elif defined(__AVX2__)
    typedef int16_t plain __attribute__((vector_size(32)));
    return (v8i)((v8u)sums + (v8u)__builtin_ia32_pmaddwd256((plain)a, (plain)b));
#else
#define PAIRS_HALF(x, i) \
    (v8u) __builtin_convertvector( \
        __builtin_shufflevector(x, x, i, i + 2, i + 4, i + 6, i + 8, i + 10, i + 12, i + 14), v8i)
    v8u first = PAIRS_HALF(a, 0) * PAIRS_HALF(b, 0), second = PAIRS_HALF(a, 1) * PAIRS_HALF(b, 1);
    return (v8i)((v8u)sums + first + second);
#undef PAIRS_HALF
#endif
}

#endif
