/* The largest error of functions of float32 over arguments first, first + step, ... (as bit patterns), measured against
 * vmath.h's functions of double, whose own errors tests/kernels/test_kernels.py holds against long double. */
#include "vmath.h"

/* The distance of `got` from `want` in units of float32's last place there, or at 2^(least - 127) where that is more;
 * infinite where only one is a NaN. Where the exact value rounds to infinity, infinity is right. */
MCP26_INLINE v8d error_of(v8f got, v8d want, int32_t least) {
    v8f rounded = __builtin_convertvector(want, v8f);
    v8i exponent = (v8i)((v8u)rounded >> 23 & 0xffu);
    exponent = v8i_select(exponent < least, v8i_splat(least), v8i_select(exponent == 255, v8i_splat(254), exponent));
    v8d unit = (v8d)((__builtin_convertvector(exponent, v8l) - (127 + 23) + 1023) << 52);
    v8i is_same = (got != got) & (rounded != rounded);
    is_same |= ((v8i)got == (v8i)rounded) & (v8f_abs(rounded) == MCP26_INFINITY);
    v8d error = v8d_abs(__builtin_convertvector(got, v8d) - want) / unit;
    error = v8d_select(error == error, error, (double)MCP26_INFINITY);
    return v8d_select(__builtin_convertvector(is_same, v8l), 0.0, error);
}

MCP26_INLINE v8d v8d_silu(v8d x) { return x / (1.0 + v8d_exp(-x)); }

#define SWEEP(NAME) SWEEP_FROM(NAME, 1)
#define SWEEP_FROM(NAME, LEAST)                                                                                   \
    __attribute__((visibility("default"))) double sweep_##NAME(uint32_t first, uint32_t step, int64_t count,       \
                                                               float *where) {                                    \
        v8d worst = 0.0;                                                                                          \
        v8f at = 0.0f;                                                                                            \
        v8u bits = first + step * (v8u){0, 1, 2, 3, 4, 5, 6, 7};                                                  \
        for (int64_t i = 0; i < count; i += 8, bits += 8 * step) {                                                \
            v8f x = (v8f)bits;                                                                                    \
            v8d error = error_of(v8f_##NAME(x), v8d_##NAME(__builtin_convertvector(x, v8d)), LEAST);              \
            v8l is_worse = error > worst;                                                                         \
            worst = v8d_select(is_worse, error, worst);                                                           \
            at = v8f_select(__builtin_convertvector(is_worse, v8i), x, at);                                       \
        }                                                                                                         \
        int lane = 0;                                                                                             \
        for (int i = 1; i < 8; i++) lane = worst[i] > worst[lane] ? i : lane;                                     \
        *where = at[lane];                                                                                        \
        return worst[lane];                                                                                       \
    }
SWEEP(exp) SWEEP(expm1) SWEEP(log) SWEEP(log1p) SWEEP(tanh) SWEEP(erf) SWEEP(sin) SWEEP(cos)
SWEEP(tan) SWEEP(asin) SWEEP(acos) SWEEP(atan) SWEEP(sinh) SWEEP(cosh) SWEEP(asinh) SWEEP(acosh) SWEEP(atanh)
SWEEP_FROM(gelu, 125) SWEEP_FROM(silu, 27) SWEEP_FROM(sigmoid, 23)
