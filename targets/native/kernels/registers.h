/* registers.h: what the cores of products do to registers that clang would do otherwise. */
#ifndef MCP26_REGISTERS_H
#define MCP26_REGISTERS_H

#include "simd.h"

#if defined(__aarch64__)
/* N * 4 floats by one instruction; gives the place behind them. The empty assembly keeps clang from computing places of
 * several loads from one another, which takes more instructions than stepping on does. */
#define DEFINE_LOAD(N)                                                            \
    MCP26_INLINE const float *registers_load_##N(v4f *to, const float *p) {       \
        typedef __attribute__((neon_vector_type(4))) float plain;                 \
        struct {                                                                  \
            plain v[N];                                                           \
        } loaded;                                                                 \
        __builtin_neon_vld1q_x##N##_v(&loaded, p, 41 /* float32x4_t */);          \
        __builtin_memcpy(to, &loaded, sizeof loaded);                             \
        p += 4 * N;                                                               \
        __asm__("" : "+r"(p));                                                    \
        return p;                                                                 \
    }
DEFINE_LOAD(2)
DEFINE_LOAD(3)
DEFINE_LOAD(4)
#undef DEFINE_LOAD
#endif

#endif
