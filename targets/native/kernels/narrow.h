/* narrow.h: element types stored in fewer bits than they are computed in, and the conversions; the end of simd.h.
 *
 * A type T has V_from_T(bits), which is exact, and T_from_V(x). V is v8f for floats, whose bits are v8w or v8b: rounded
 * to the nearest, halves to even, a NaN stays one, and what is beyond the range becomes what IEEE 754 would have it be,
 * or the nearest that the type has. V is v8c or v8b for integers, which wrap; they lie in the low bits of a byte, whose
 * other bits are ignored when read and zero when written.
 */
#ifndef MCP26_NARROW_H
#define MCP26_NARROW_H

#include "simd.h"

/* ---- 16 bits */

typedef _Float16 v8h __attribute__((ext_vector_type(8)));
MCP26_INLINE v8f v8f_from_half(v8w bits) { return __builtin_convertvector((v8h)bits, v8f); }
MCP26_INLINE v8w half_from_v8f(v8f x) { return (v8w)__builtin_convertvector(x, v8h); }

/* float16 in memory, float32 in registers: for macros over a vector and its elements. */
typedef v8f half8;
MCP26_INLINE v8f half8_load_all(const uint16_t *p) { return v8f_from_half(v8w_load_all(p)); }
MCP26_INLINE v8f half8_load(const uint16_t *p, int64_t lanes) { return v8f_from_half(v8w_load(p, lanes)); }
MCP26_INLINE void half8_store_all(uint16_t *p, v8f v) { v8w_store_all(p, half_from_v8f(v)); }
MCP26_INLINE void half8_store(uint16_t *p, v8f v, int64_t lanes) { v8w_store(p, half_from_v8f(v), lanes); }
MCP26_INLINE v8f half8_splat(float x) { return v8f_splat(x); }

/* float16 operators whose results are operands, perhaps with another sign, or whole numbers, and the square root, which is
 * still to be rounded. Where the processor computes float16 they do. Other operators that round a float32 result once (+,
 * -, *, /) the compiler computes in float16 by itself: the numbers are the same. */
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define MCP26_HALF_1(NAME, WIDE, F) \
    MCP26_INLINE v8f v8f_half_##NAME(v8f a) { return v8f_from_half((v8w)F((v8h)half_from_v8f(a))); }
#define MCP26_HALF_2(NAME, WIDE, F) \
    MCP26_INLINE v8f v8f_half_##NAME(v8f a, v8f b) { \
        return v8f_from_half((v8w)F((v8h)half_from_v8f(a), (v8h)half_from_v8f(b))); \
    }
#else
/* Hides that `x` is float16, or clang takes maxima and rounds to whole numbers in float16 too, one lane after the other. */
MCP26_INLINE v8f v8f_opaque(v8f x) {
#if defined(__AVX__)
    __asm__("" : "+x"(x));
#else
    v4f low = x.lo, high = x.hi;
#if defined(__x86_64__)
    __asm__("" : "+x"(low), "+x"(high));
#else
    __asm__("" : "+w"(low), "+w"(high));
#endif
    x.lo = low, x.hi = high;
#endif
    return x;
}
#define MCP26_HALF_1(NAME, WIDE, F)            \
    MCP26_INLINE v8f v8f_half_##NAME(v8f a) {   \
        a = v8f_opaque(a);                     \
        return WIDE;                           \
    }
#define MCP26_HALF_2(NAME, WIDE, F)                  \
    MCP26_INLINE v8f v8f_half_##NAME(v8f a, v8f b) {  \
        a = v8f_opaque(a);                           \
        return WIDE;                                 \
    }
#endif
MCP26_HALF_1(abs, v8f_abs(a), __builtin_elementwise_abs)
MCP26_HALF_1(neg, v8f_neg(a), -)
MCP26_HALF_1(floor, v8f_floor(a), __builtin_elementwise_floor)
MCP26_HALF_1(ceil, v8f_ceil(a), __builtin_elementwise_ceil)
MCP26_HALF_1(round, v8f_round(a), __builtin_elementwise_roundeven)
MCP26_HALF_1(sqrt, v8f_sqrt(a), __builtin_elementwise_sqrt)
MCP26_HALF_2(max, v8f_max(a, b), __builtin_elementwise_maximum)
MCP26_HALF_2(min, v8f_min(a, b), __builtin_elementwise_minimum)

MCP26_INLINE v8f v8f_from_bfloat(v8w bits) { return (v8f)(__builtin_convertvector(bits, v8u) << 16); }
MCP26_INLINE v8w bfloat_from_v8f(v8f x) {
    v8u bits = (v8u)x, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return __builtin_convertvector(v8u_select(x != x, v8u_splat(0x7fc0u), rounded), v8w);
}

/* ---- 8 and 4 bits: a sign, an exponent with a bias, a mantissa; a NaN is the code `nan` */

typedef struct {
    uint32_t mantissa, bias; /* bits of the one, the other */
    uint32_t sign;           /* the sign's bit */
    uint32_t most, beyond;   /* the code of the largest number, and of what is larger */
    uint32_t nan;
    uint32_t is_zero_unsigned; /* the code of -0 is the NaN's */
} small_float;

MCP26_INLINE v8f v8f_from_small(v8b bits, small_float f) {
    v8u code = __builtin_convertvector(bits, v8u) & (2 * f.sign - 1), low = code & (f.sign - 1);
    v8f normal = (v8f)((low << (23 - f.mantissa)) + ((127 - f.bias) << 23));
    v8f steps = __builtin_convertvector((v8i)low, v8f), step = (v8f)v8u_splat((128 - f.bias - f.mantissa) << 23);
    v8f size = v8f_select((v8i)(low < (1u << f.mantissa)), steps * step, normal);
    v8f value = v8f_copysign(size, (v8f)(code * (0x80000000u / f.sign)));
    v8i is_nan = f.is_zero_unsigned ? (v8i)(code == f.nan) : (v8i)(low == f.nan);
    return v8f_select(is_nan, v8f_splat(__builtin_nanf("")), value);
}

MCP26_INLINE v8b small_from_v8f(v8f x, small_float f) {
    v8f size = v8f_abs(x);
    uint32_t shift = 23 - f.mantissa;
    v8u bits = (v8u)size, rounded = (bits + ((1u << (shift - 1)) - 1) + ((bits >> shift) & 1u)) >> shift;
    v8u normal = rounded - ((127 - f.bias) << f.mantissa);
    /* Below the least normal number, steps are as small as those of floats from this one on. */
    v8f steps = (v8f)v8u_splat(((151 - f.bias - f.mantissa) << 23) | 0x400000u);
    v8u small = (v8u)(size + steps) - (v8u)steps;
    v8u code = v8u_select(size < (v8f)v8u_splat((128 - f.bias) << 23), small, normal);
    code = v8u_select((v8i)(code > f.most), v8u_splat(f.beyond), code);
    code = v8u_select(x != x, v8u_splat(f.nan), code);
    v8u sign = ((v8u)x >> 31) * f.sign;
    if (f.is_zero_unsigned) sign = v8u_select((v8i)((code == 0) | (code == f.nan)), v8u_splat(0), sign);
    return __builtin_convertvector(code | sign, v8b);
}

#define MCP26_SMALL_FLOAT(T, ...)                                                                                \
    MCP26_INLINE v8f v8f_from_##T(v8b bits) { return v8f_from_small(bits, (small_float){__VA_ARGS__}); }         \
    MCP26_INLINE v8b T##_from_v8f(v8f x) { return small_from_v8f(x, (small_float){__VA_ARGS__}); }
MCP26_SMALL_FLOAT(e4m3, 3, 7, 0x80, 0x7e, 0x7f, 0x7f, 0)
MCP26_SMALL_FLOAT(e4m3z, 3, 8, 0x80, 0x7f, 0x80, 0x80, 1)
MCP26_SMALL_FLOAT(e5m2z, 2, 16, 0x80, 0x7f, 0x80, 0x80, 1)
/* Neither infinities nor NaN: the largest number stands for the ones, -0 for the other. */
MCP26_SMALL_FLOAT(e2m1, 1, 1, 0x8, 0x7, 0x7, 0x8, 0)
MCP26_INLINE v8f v8f_from_e5m2(v8b bits) { return v8f_from_half(__builtin_convertvector(bits, v8w) << 8); }
MCP26_INLINE v8b e5m2_from_v8f(v8f x) {
    return small_from_v8f(x, (small_float){2, 15, 0x80, 0x7b, 0x7c, 0x7f, 0});
}

/* A power of two, its exponent + 127; 255 is NaN. Signs are dropped; numbers between powers go to the lower one. */
MCP26_INLINE v8f v8f_from_e8m0(v8b bits) {
    v8u code = __builtin_convertvector(bits, v8u);
    v8u value = v8u_select((v8i)(code == 0), v8u_splat(0x00400000u), code << 23);
    return (v8f)v8u_select((v8i)(code == 255), v8u_splat(0x7fc00000u), value);
}
MCP26_INLINE v8b e8m0_from_v8f(v8f x) { return __builtin_convertvector((v8u)v8f_abs(x) >> 23, v8b); }

/* Positive numbers from 2^-127 on to a power of two: the one below, above, or nearer (from the middle on the upper). */
MCP26_INLINE v8f v8f_pow2_down(v8f x) {
    v8u bits = (v8u)x, exponent = bits & 0x7f800000u;
    v8f power = (v8f)v8u_select((v8i)(exponent == 0), bits & 0x00400000u, exponent);
    return v8f_select(x != x, x, power);
}
MCP26_INLINE v8f v8f_pow2_up(v8f x) {
    v8f down = v8f_pow2_down(x);
    return v8f_select(x > down, down * 2.0f, down);
}
MCP26_INLINE v8f v8f_pow2_nearest(v8f x) {
    v8f down = v8f_pow2_down(x);
    return v8f_select(x >= down * 1.5f, down * 2.0f, down);
}

/* float64 on the way to a narrow float: rounded to odd, so that rounding again gives what rounding once would have
 * (S. Boldo, G. Melquiond: Emulation of FMA and correctly rounded sums, 2008). */
MCP26_INLINE v8f v8f_odd_from_v8d(v8d x) {
    v8f near = __builtin_convertvector(x, v8f);
    v8d back = __builtin_convertvector(near, v8d);
    v8i is_larger = __builtin_convertvector(v8d_abs(back) > v8d_abs(x), v8i);
    v8i is_exact = __builtin_convertvector((back == x) | (x != x), v8i);
    v8u towards_zero = (v8u)near - ((v8u)is_larger & 1u);
    return (v8f)v8u_select(is_exact, (v8u)near, towards_zero | 1u);
}

/* ---- integers of 4 and 2 bits */

MCP26_INLINE v8c v8c_from_i4(v8b bits) { return (v8c)(bits << 4) >> 4; }
MCP26_INLINE v8c v8c_from_i2(v8b bits) { return (v8c)(bits << 6) >> 6; }
MCP26_INLINE v8b v8b_from_u4(v8b bits) { return bits & 15; }
MCP26_INLINE v8b v8b_from_u2(v8b bits) { return bits & 3; }
MCP26_INLINE v8b i4_from_v8c(v8c x) { return (v8b)x & 15; }
MCP26_INLINE v8b i2_from_v8c(v8c x) { return (v8b)x & 3; }
MCP26_INLINE v8b u4_from_v8b(v8b x) { return x & 15; }
MCP26_INLINE v8b u2_from_v8b(v8b x) { return x & 3; }

/* ---- packed constants: the first element in the lowest bits, 8 bytes behind the last that may be read */

/* Elements i ... i+7 of `bits` (2 or 4) each, a byte each with others above. */
MCP26_INLINE v8b v8b_unpack(const uint8_t *packed, int64_t bits, int64_t i) {
    uint64_t word;
    __builtin_memcpy(&word, packed + i * bits / 8, sizeof word);
    word >>= i * bits % 8;
    v8u lanes = v8u_splat((uint32_t)word);
    if (bits == 2) return __builtin_convertvector(lanes >> (v8u){0, 2, 4, 6, 8, 10, 12, 14}, v8b);
    return __builtin_convertvector(lanes >> (v8u){0, 4, 8, 12, 16, 20, 24, 28}, v8b);
}

/* ---- steps of a scale, as bytes around a zero point (-128 ... 255) */

/* Halves go to the even neighbour, what is out of range to about 2^30 on its side, NaN to the lower one. */
MCP26_INLINE v8i v8i_nearest(v8f x) {
#if defined(__AVX2__)
    typedef float plain __attribute__((vector_size(32)));
    return (v8i)__builtin_ia32_cvtps2dq256((plain)v8f_select(x > 0x1p30f, 0x1p30f, x));
#elif defined(__ARM_NEON)
    typedef int8_t plain __attribute__((neon_vector_type(16)));
    typedef int32_t v4i __attribute__((ext_vector_type(4)));
    x = __builtin_elementwise_max(x, (v8f)-0x1p30f); /* that one's maximum is the number where the other is NaN */
    v4i low = (v4i)__builtin_neon_vcvtnq_s32_v((plain)x.lo, 34 /* int32x4 */);
    v4i high = (v4i)__builtin_neon_vcvtnq_s32_v((plain)x.hi, 34);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
}

/* Sums that stay within 16 bits. */
MCP26_INLINE v8s v8s_from_steps(v8f steps, v8s zero) {
    v8i whole = __builtin_elementwise_max(v8i_nearest(steps), (v8i)INT16_MIN);
    whole = __builtin_elementwise_min(whole, (v8i)INT16_MAX);
    return __builtin_elementwise_add_sat(__builtin_convertvector(whole, v8s), zero);
}
MCP26_INLINE v8b v8b_from_steps(v8f steps, v8s zero) {
    v8s sum = __builtin_elementwise_max(v8s_from_steps(steps, zero), (v8s)0);
    return __builtin_convertvector(__builtin_elementwise_min(sum, (v8s)UINT8_MAX), v8b);
}
MCP26_INLINE v8c v8c_from_steps(v8f steps, v8s zero) {
    v8s sum = __builtin_elementwise_max(v8s_from_steps(steps, zero), (v8s)INT8_MIN);
    return __builtin_convertvector(__builtin_elementwise_min(sum, (v8s)INT8_MAX), v8c);
}

#endif
