/* vmath.h: elementary functions of float on 8 lanes, the same bits on every ISA (only +, *, /, fma and integer
 * operations).
 *
 * Largest errors, in units in the last place:
 *
 *     log 0.9; erf, exp 1.1; expm1, log1p 1.5; tanh 2; the others 0.51; fmod 0
 *     sigmoid 1.8, of 2^-104 where that is more; silu 5.9 (3.4 above -17), of 2^-100 where that is more
 *     gelu 3.5, of 1/4 where that is more
 *
 * tests/kernels measures them: those with one argument by a sweep through all exponents (sweep.py), the others by
 * samples. Those that are not written out here are double's, rounded (vmath_double.h). Infinities, zeros, denormals and
 * NaN give what they give in C's libm, and angles may be of any size.
 */
#ifndef MCP26_VMATH_H
#define MCP26_VMATH_H

#include "vmath_double.h"

/* x = n ln 2 + r with |r| <= ln 2 / 2; n is an integer, `whole` its value as a float. */
typedef struct {
    v8i n;
    v8f r, whole;
} vmath_reduced;

MCP26_INLINE vmath_reduced vmath_reduce(v8f x) {
    /* Adding 1.5 * 2^23 rounds to an integer, which then sits in the low bits. */
    v8f shifted = v8f_fma(x, 1.44269504f, 12582912.0f);
    v8f n = shifted - 12582912.0f;
    v8f r = v8f_fma(n, -0x1.62e43p-1f, x);
    return (vmath_reduced){(v8i)shifted - 0x4b400000, v8f_fma(n, 0x1.05c61p-29f, r), n};
}

/* e^r - 1 for |r| <= ln 2 / 2 (Cephes' polynomial, by Estrin's scheme: a chain of half the length). */
MCP26_INLINE v8f vmath_expm1(v8f r) {
    v8f s = r * r;
    v8f high = v8f_fma(r, 1.9875691500e-4f, 1.3981999507e-3f);
    v8f middle = v8f_fma(r, 8.3334519073e-3f, 4.1665795894e-2f);
    v8f low = v8f_fma(r, 1.6666665459e-1f, 5.0000001201e-1f);
    return v8f_fma(v8f_fma(v8f_fma(high, s, middle), s, low), s, r);
}

/* 2^n for -126 <= n <= 127. */
MCP26_INLINE v8f vmath_power_of_two(v8i n) { return (v8f)((n + 127) << 23); }

MCP26_INLINE v8f v8f_exp(v8f x) {
    x = v8f_select(x > 89.0f, 89.0f, x); /* a NaN passes both */
    x = v8f_select(x < -104.0f, -104.0f, x);
    /* As vmath_reduce, with n + 254 in the low bits. */
    v8f shifted = v8f_fma(x, 1.44269504f, 12582912.0f + 254.0f);
    v8f n = shifted - (12582912.0f + 254.0f);
    v8f p = vmath_expm1(v8f_fma(n, 0x1.05c61p-29f, v8f_fma(n, -0x1.62e43p-1f, x)));
#if defined(__AVX512VL__)
    typedef float plain __attribute__((vector_size(32)));
    return (v8f)__builtin_ia32_scalefps256_mask((plain)(p + 1.0f), (plain)n, (plain)p, 0xff); /* rounded once */
#else
    /* 2^n in two steps: n may lie beyond the exponent's range at both ends; the first is exact. */
    v8i half = (v8i)shifted >> 1 << 23, rest = ((v8i)shifted << 23) - half;
    return v8f_fma(p, (v8f)half, (v8f)half) * (v8f)rest;
#endif
}

/* N. Juffa's polynomial for log1p on [-1/3, 1/3]. */
MCP26_INLINE v8f v8f_log(v8f x) {
    v8i is_tiny = x < 0x1p-126f;
    v8f a = v8f_select(is_tiny, x * 8388608.0f, x);
    v8i e = ((v8i)a - 0x3f2aaaab) & (int32_t)0xff800000;
    v8f m = (v8f)((v8i)a - e) - 1.0f;
    v8f i = v8f_from_v8i(e >> 23) - v8f_select(is_tiny, 23.0f, 0.0f);
    v8f s = m * m;
    v8f r = v8f_fma(s, -0.130310059f, -0.121483512f);
    v8f t = v8f_fma(s, 0.140869141f, 0.139814854f);
    r = v8f_fma(r, s, -0.166846126f);
    t = v8f_fma(t, s, 0.200120345f);
    r = v8f_fma(r, s, -0.249996200f);
    r = v8f_fma(t, m, r);
    r = v8f_fma(r, m, 0.333331972f);
    r = v8f_fma(r, m, -0.5f);
    r = v8f_fma(r, s, m);
    r = v8f_fma(i, 0x1.62e43p-1f, r);
    r = v8f_select(x == MCP26_INFINITY, MCP26_INFINITY, r);
    r = v8f_select(x == 0.0f, -MCP26_INFINITY, r);
    return v8f_select((x >= 0.0f), r, MCP26_NAN);
}

/* e^x - 1 with full relative accuracy near 0. */
MCP26_INLINE v8f v8f_expm1(v8f x) {
    x = v8f_select(x > 89.0f, 89.0f, x); /* a NaN passes both */
    x = v8f_select(x < -20.0f, -20.0f, x);
    vmath_reduced t = vmath_reduce(x);
    v8f half = vmath_power_of_two(t.n - 1); /* half the power: n may be 128 */
    return v8f_copysign(v8f_fma(vmath_expm1(t.r), half, half - 0.5f) * 2.0f, x); /* -0 stays */
}

/* log(1 + x) with full relative accuracy near 0: the rounding of 1 + x is made good. */
MCP26_INLINE v8f v8f_log1p(v8f x) {
    v8f u = 1.0f + x;
    v8f lost = (x - (u - 1.0f)) / u;
    v8f r = v8f_log(u) + v8f_select((u > 0.0f) & (u < MCP26_INFINITY), lost, 0.0f);
    return v8f_select(x == 0.0f, x, r); /* -0 stays */
}

/* With h = (e^2|x| - 1) / 2 and b = min(h, 1), tanh |x| is b - b b / (h + 1): the quotient, and with it the roundings of
 * the sum and of the division, count little where the result is small, and no digits cancel where it is near 1. */
MCP26_INLINE v8f v8f_tanh(v8f x) {
    v8f two = v8f_abs(x) * 2.0f;
    two = v8f_select(two > 30.0f, 30.0f, two); /* a NaN passes */
    /* As vmath_reduce, with the exponent of 2^(n - 1) in the low bits. */
    v8f shifted = v8f_fma(two, 1.44269504f, 12582912.0f + 126.0f);
    v8f n = shifted - (12582912.0f + 126.0f);
    v8f r = v8f_fma(n, 0x1.05c61p-29f, v8f_fma(n, -0x1.62e43p-1f, two));
    v8f scale = (v8f)((v8i)shifted << 23);
    v8f h = v8f_fma(vmath_expm1(r), scale, scale - 0.5f); /* exact near zero */
    v8f b = v8f_select(h > 1.0f, 1.0f, h);
    return (v8f)((v8u)v8f_fma(-b, b / (h + 1.0f), b) | ((v8u)x & 0x80000000u));
}

/* Element i & 7 of `table` for each lane i. */
MCP26_INLINE v8i vmath_lookup(v8i table, v8i i) {
#if defined(__x86_64__)
    typedef int plain __attribute__((vector_size(32)));
    return (v8i)__builtin_ia32_permvarsi256((plain)table, (plain)i);
#else
    typedef __attribute__((neon_vector_type(16))) int8_t plain;
    typedef int32_t v4i __attribute__((ext_vector_type(4)));
    v8i bytes = (i & 7) * 0x04040404 + 0x03020100;
    v4i low = (v4i)__builtin_neon_vqtbl2q_v((plain)table.lo, (plain)table.hi, (plain)bytes.lo, 48 /* uint8x16 */);
    v4i high = (v4i)__builtin_neon_vqtbl2q_v((plain)table.lo, (plain)table.hi, (plain)bytes.hi, 48);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
}

/* e^-x = 2^k 2^(j / 8) e^r = scale e^r, where 8 x = -(8 k + j) ln 2 - 8 r with j < 8: r is so small that four terms of e^r
 * do. `eighths` is 8 k + j. x is at most 80; below -88.7 e^r makes e^-x infinite. */
typedef struct {
    v8f scale, eighths;
} vmath_power;

MCP26_INLINE vmath_power vmath_reduce_power(v8f x) {
    /* As integers, negative floats have the order of their sizes. */
    v8f bounded = (v8f)__builtin_elementwise_min((v8u)x, (v8u)v8f_splat(-88.6f));
    /* As vmath_reduce, with 8 times the exponent of 2^k above j in the low bits. */
    v8f shifted = v8f_fma(bounded, -0x1.715476p+3f, 12582912.0f + 8 * 127.0f);
    /* The bits of 2^(j / 8) less those of 1 and j at the end of the exponent. */
    const v8i powers = {0, -0x46a3e, -0x7c810, -0xa0129, -0xafb0d, -0xa98d6, -0x8bb03, -0x53f39};
    v8i scale = ((v8i)shifted << 20) + vmath_lookup(powers, (v8i)shifted);
    return (vmath_power){(v8f)scale, shifted - (12582912.0f + 8 * 127.0f)};
}

/* x / (1 + e^-x) = x sigmoid(x). One float of ln 2 / 8, which is right to 2^-28 of itself. Below -88.7, where the result
 * is less than 4e-37, it is -0; as for the product, it is a NaN for minus infinity. */
MCP26_INLINE v8f v8f_silu(v8f x) {
    /* As integers, floats of one sign have the order of their sizes; a NaN stays one in the quotient. */
    v8f most = (v8f)__builtin_elementwise_min((v8i)x, (v8i)v8f_splat(80.0f));
    vmath_power t = vmath_reduce_power(most);
    v8f minus = v8f_fma(t.eighths, 0x1.62e43p-4f, most); /* -r */
    v8f p = v8f_fma(minus, -0x1.555d8ap-3f, 0x1.00087ep-1f);
    p = v8f_fma(v8f_fma(p, minus, -1.0f), minus, 1.0f); /* e^r */
    return x / v8f_fma(p, t.scale, 1.0f);
}

/* 1 / (1 + e^-x), where the sum of 1 and the scale is made good for its rounding. Below -88.7, where the result is less
 * than 2^-127, it is 0. */
MCP26_INLINE v8f v8f_sigmoid(v8f x) {
    v8f most = v8f_min(x, 80.0f); /* a NaN stays one */
    vmath_power t = vmath_reduce_power(most);
    v8f minus = v8f_fma(t.eighths, -0x1.05c61p-32f, v8f_fma(t.eighths, 0x1.62e43p-4f, most)); /* -r */
    v8f s = minus * minus, p = v8f_fma(minus, -1.66666667e-1f, v8f_fma(s, 4.16666667e-2f, 0.5f));
    p = v8f_fma(p, s, v8f_neg(minus)); /* e^r - 1 */
    v8i one = (v8i)v8f_splat(1.0f), scale = (v8i)t.scale; /* as integers, positive floats have the order of their sizes */
    v8f large = (v8f)__builtin_elementwise_max(scale, one), small = (v8f)__builtin_elementwise_min(scale, one);
    v8f sum = large + small, lost = large - sum + small;
    return 1.0f / (v8f_fma(p, t.scale, lost) + sum);
}

/* N. Juffa's two polynomials. */
MCP26_INLINE v8f v8f_erf(v8f x) {
    v8f t = v8f_abs(x);
    t = v8f_select(t > 4.0f, 4.0f, t); /* a NaN passes; from there on the result is 1 */
    v8f s = t * t;
    v8f r = v8f_fma(t, -0x1.22p-16f, 0x1.91cfb2p-12f);
    v8f u = v8f_fma(t, -0x1.fd1438p-9f, 0x1.8d6342p-6f);
    r = v8f_fma(r, s, u);
    r = v8f_fma(r, t, -0x1.b55cb8p-4f);
    r = v8f_fma(r, t, -0x1.450aa0p-1f);
    r = v8f_fma(r, t, -0x1.079d0cp-3f);
    r = v8f_fma(r, t, v8f_neg(t));
    /* As v8f_exp, whose bounds r < 0 does not reach. */
    v8f shifted = v8f_fma(r, 1.44269504f, 12582912.0f + 127.0f);
    v8f n = shifted - (12582912.0f + 127.0f);
    v8f e = vmath_expm1(v8f_fma(n, 0x1.05c61p-29f, v8f_fma(n, -0x1.62e43p-1f, r)));
    v8f scale = (v8f)((v8i)shifted << 23);
    v8f large = v8f_copysign(1.0f - v8f_fma(e, scale, scale), x);
    v8f p = v8f_fma(s, -5.96761703e-4f, 4.99119423e-3f);
    p = v8f_fma(p, s, -2.67681349e-2f);
    p = v8f_fma(p, s, 1.12819925e-1f);
    p = v8f_fma(p, s, -3.76125336e-1f);
    p = v8f_fma(p, s, 1.28379166e-1f);
    v8f small = v8f_fma(p, x, x);
    return v8f_select(t > 0.927734375f, large, small); /* a NaN compares false and passes through `small` */
}

/* x Phi(x), Phi being the distribution function of the standard normal distribution, as max(x, 0) - t Phi(-t) with
 * t = |x|. log2 Phi(-t) is a polynomial, fitted so that t Phi(-t) is near, which falls to -127 at the bound of t. */
MCP26_INLINE v8f v8f_gelu(v8f x) {
    v8f t = v8f_abs(x);
    t = v8f_select(t > 11.2557f, 11.2557f, t); /* a NaN passes */
    v8f s = t * t;
    v8f y = v8f_fma(s, -9.28370184e-7f, v8f_fma(t, 1.57644081e-5f, -7.14391936e-5f));
    y = v8f_fma(y, s, v8f_fma(t, -4.16380441e-4f, 7.42491754e-3f));
    y = v8f_fma(y, s, v8f_fma(t, -5.27383797e-2f, -4.59132791e-1f));
    y = v8f_fma(y, s, v8f_fma(t, -1.15111363f, -0.999999821f));
    /* 2^y = 2^n 2^f with |f| <= 1/2. The exponent of 2^n is in the low bits of `shifted`: for n = -127 a zero. */
    v8f shifted = y + (12582912.0f + 127.0f);
    v8f scale = (v8f)((v8i)shifted << 23);
    v8f f = y - (shifted - (12582912.0f + 127.0f)), g = f * f;
    v8f q = v8f_fma(g, 1.53458124e-4f, v8f_fma(f, 1.33999309e-3f, 9.61848907e-3f));
    q = v8f_fma(q, g, v8f_fma(f, 5.55032864e-2f, 2.40226462e-1f));
    q = v8f_fma(q, g, v8f_fma(f, 6.93147182e-1f, 1.0f)) * scale;
    return v8f_fma(-t, q, v8f_select((v8i)x < 0, x * 0.0f, x)); /* NaN at -infinity, as 0 times that is */
}

/* ---- float, by way of double */

#define VMATH_BY_DOUBLE(NAME)                                                                                   \
    MCP26_INLINE v8f v8f_##NAME(v8f x) {                                                                        \
        return __builtin_convertvector(v8d_##NAME(__builtin_convertvector(x, v8d)), v8f);                       \
    }
VMATH_BY_DOUBLE(sin)
VMATH_BY_DOUBLE(cos)
VMATH_BY_DOUBLE(tan)
VMATH_BY_DOUBLE(asin)
VMATH_BY_DOUBLE(acos)
VMATH_BY_DOUBLE(atan)
VMATH_BY_DOUBLE(sinh)
VMATH_BY_DOUBLE(cosh)
VMATH_BY_DOUBLE(asinh)
VMATH_BY_DOUBLE(acosh)
VMATH_BY_DOUBLE(atanh)

/* As v8d_pow, where the digits of float32 suffice: one double for the logarithm, whose series ends with s^13, and
 * Taylor's series to r^9 for the power. */
MCP26_INLINE v8f v8f_pow(v8f x, v8f y) {
    const float infinity = MCP26_INFINITY;
    v8f t = v8f_abs(x), half = y * 0.5f;
    /* t = m 2^n with m in [sqrt(1/2), sqrt(2)). */
    v8i is_tiny = t < 0x1p-126f;
    v8i bits = (v8i)v8f_select(is_tiny, t * 0x1p23f, t), exponent = (bits - 0x3f3504f3) & (int32_t)0xff800000;
    v8f whole = v8f_from_v8i(exponent >> 23) - v8f_select(is_tiny, 23.0f, 0.0f);
    v8d f = __builtin_convertvector((v8f)(bits - exponent) - 1.0f, v8d), n = __builtin_convertvector(whole, v8d);
    v8d s = f / (f + 2.0), z = s * s, l = 2.0 / 13;
    MCP26_UNROLL for (int k = 11; k >= 3; k -= 2) l = v8d_fma(l, z, 2.0 / k);
    l = v8d_fma(n, 0x1.62e42fefa39efp-1, v8d_fma(l * z, s, s * 2.0));
    v8d p = __builtin_convertvector(y, v8d) * l;
    p = v8d_select(p > 90.0, 90.0, p); /* a NaN passes both */
    p = v8d_select(p < -105.0, -105.0, p);
    vmath_reduced_d reduced = vmath_reduce_d(p);
    const double inverse[8] = {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880};
    v8d e = inverse[7], scale = vmath_power_of_two_d(reduced.n);
    MCP26_UNROLL for (int k = 6; k >= 0; k--) e = v8d_fma(e, reduced.r, inverse[k]);
    e = v8d_fma(e, reduced.r * reduced.r, reduced.r);
    v8f r = __builtin_convertvector(v8d_fma(e, scale, scale), v8f);
    v8i is_integer = v8f_trunc(y) == y, is_odd = is_integer & (v8f_trunc(half) != half);
    v8i y_finite = v8f_abs(y) < infinity, is_ordinary = (t > 0.0f) & (t < infinity) & y_finite;
    v8f extreme = v8f_select((t > 1.0f) == (y > 0.0f), infinity, 0.0f);
    r = v8f_select(is_ordinary, r, v8f_select(t == 1.0f, 1.0f, extreme));
    r = v8f_select(is_odd & ((v8i)x < 0), v8f_neg(r), r);
    r = v8f_select((x < 0.0f) & (x > -infinity) & y_finite & ~is_integer, MCP26_NAN, r);
    r = v8f_select((x != x) | (y != y), MCP26_NAN, r);
    return v8f_select((y == 0.0f) | (x == 1.0f), 1.0f, r);
}

MCP26_INLINE v8f v8f_fmod(v8f x, v8f y) {
    return __builtin_convertvector(v8d_fmod(__builtin_convertvector(x, v8d), __builtin_convertvector(y, v8d)), v8f);
}

#endif
