/* simd.h: 8-lane vectors, the vocabulary of every kernel and of the epilogues in generated code.
 *
 * The logical width is 8 on every ISA (one AVX register, two NEON registers for float), so that reductions have one
 * order everywhere. All results are the same to the last bit on x86-64 and AArch64, except a NaN's sign and payload.
 * That holds in the default floating-point environment (round to nearest even, no flush to zero) and with
 * -ffp-contract=off: a product and a sum are fused only where v8f_fma says so.
 *
 *     v8f  float    v8i  int32     v8l  int64     v8s  int16     v8c  int8
 *     v8d  double   v8u  uint32    v8q  uint64    v8w  uint16    v8b  uint8 (bool is 0 or 1)
 *
 * Arithmetic, comparison and bit operators work lane by lane, scalars are splat (x * 0.5f). A comparison gives a mask
 * of 0 and -1 in the signed type as wide as the operands; V_select(mask, a, b) takes a where the mask is set. A cast
 * between types of one size keeps the bits; __builtin_convertvector(x, v8i) converts values.
 *
 * A `lanes` parameter, 1 ... 8, is the number of elements that exist: a load reads and a store writes only these, and
 * the lanes beyond are zero after a load.
 */
#ifndef MCP26_SIMD_H
#define MCP26_SIMD_H

#include <stddef.h>
#include <stdint.h>

#define MCP26_INLINE static inline __attribute__((always_inline))
/* clang takes a vector's `?:` for a conversion to bool. */
#define MCP26_QUIET _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wconversion\"")
#define MCP26_LOUD _Pragma("clang diagnostic pop")
#define MCP26_UNROLL _Pragma("clang loop unroll(full)")
#define MCP26_ROLL _Pragma("clang loop unroll(disable)")

/* Operand `i` of a fused function as a pointer to elements of `type`. */
#define ARG(type, i) ((const type *)args[i])
#define OUT(type, i) ((type *)(uintptr_t)args[i])

typedef float v8f __attribute__((ext_vector_type(8)));
typedef double v8d __attribute__((ext_vector_type(8)));
typedef int32_t v8i __attribute__((ext_vector_type(8)));
typedef uint32_t v8u __attribute__((ext_vector_type(8)));
typedef int64_t v8l __attribute__((ext_vector_type(8)));
typedef uint64_t v8q __attribute__((ext_vector_type(8)));
typedef int16_t v8s __attribute__((ext_vector_type(8)));
typedef uint16_t v8w __attribute__((ext_vector_type(8)));
typedef uint8_t v8b __attribute__((ext_vector_type(8)));
typedef int8_t v8c __attribute__((ext_vector_type(8)));
typedef float v4f __attribute__((ext_vector_type(4)));
typedef float v2f __attribute__((ext_vector_type(2)));

/* What an epilogue is: 8 results of row m, columns n ... n+7, of which `lanes` exist; gives what is to be stored. With
 * `lanes` 0 it may fetch what it is going to read of this row, and its result means nothing. */
typedef v8f (*mcp26_epilogue)(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes);

/* Stores the sum as it is: the epilogue where nothing is fused. */
MCP26_INLINE v8f epilogue_none(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)args, (void)m, (void)n, (void)lanes;
    return acc;
}

MCP26_INLINE int64_t mcp26_min(int64_t a, int64_t b) { return a < b ? a : b; }
MCP26_INLINE int64_t mcp26_max(int64_t a, int64_t b) { return a > b ? a : b; }
MCP26_INLINE int64_t mcp26_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* V_load, V_store, V_splat, V_select, and V_load_strided, whose lane i is p[i * stride]. */
#define MCP26_DEFINE_VECTOR(V, M, T)                                                                        \
    typedef struct {                                                                                     \
        V v;                                                                                             \
    } __attribute__((packed, may_alias)) V##_unaligned;                                                  \
    MCP26_INLINE V V##_load_all(const T *p) { return ((const V##_unaligned *)(const void *)p)->v; }      \
    MCP26_INLINE void V##_store_all(T *p, V v) { ((V##_unaligned *)(void *)p)->v = v; }                  \
    MCP26_INLINE V V##_load_some(const T *p, int64_t lanes) {                                            \
        T part[8] = {0};                                                                                 \
        MCP26_UNROLL for (int i = 0; i < 7; i++) {                                                       \
            if (i < lanes) part[i] = p[i];                                                               \
        }                                                                                                \
        return V##_load_all(part);                                                                       \
    }                                                                                                    \
    MCP26_INLINE void V##_store_some(T *p, V v, int64_t lanes) {                                         \
        MCP26_UNROLL for (int i = 0; i < 7; i++) {                                                       \
            if (i < lanes) p[i] = v[i];                                                                  \
        }                                                                                                \
    }                                                                                                    \
    MCP26_INLINE V V##_splat(T x) { return (V)x; }                                                       \
    MCP26_QUIET MCP26_INLINE V V##_select(M mask, V a, V b) { return mask ? a : b; } MCP26_LOUD           \
    MCP26_INLINE V V##_load_strided(const T *p, int64_t stride, int64_t lanes) {                         \
        T part[8] = {0};                                                                                 \
        MCP26_UNROLL for (int i = 0; i < 8; i++) {                                                       \
            if (i < lanes) part[i] = p[i * stride];                                                      \
        }                                                                                                \
        return V##_load_all(part);                                                                       \
    }                                                                                                    \
    MCP26_INLINE void V##_store_strided(T *p, int64_t stride, V v, int64_t lanes) {                      \
        MCP26_UNROLL for (int i = 0; i < 8; i++) {                                                       \
            if (i < lanes) p[i * stride] = v[i];                                                         \
        }                                                                                                \
    }

#define MCP26_DEFINE_MEMORY(V, M, T)                                                                                  \
    MCP26_DEFINE_VECTOR(V, M, T)                                                                                      \
    MCP26_INLINE V V##_load(const T *p, int64_t lanes) {                                                              \
        return lanes >= 8 ? V##_load_all(p) : V##_load_some(p, lanes);                                                \
    }                                                                                                                 \
    MCP26_INLINE void V##_store(T *p, V v, int64_t lanes) {                                                           \
        if (lanes >= 8)                                                                                               \
            V##_store_all(p, v);                                                                                      \
        else                                                                                                          \
            V##_store_some(p, v, lanes);                                                                              \
    }

MCP26_DEFINE_MEMORY(v8d, v8l, double)
MCP26_DEFINE_MEMORY(v8i, v8i, int32_t)
MCP26_DEFINE_MEMORY(v8u, v8i, uint32_t)
MCP26_DEFINE_MEMORY(v8l, v8l, int64_t)
MCP26_DEFINE_MEMORY(v8q, v8l, uint64_t)
MCP26_DEFINE_MEMORY(v8s, v8s, int16_t)
MCP26_DEFINE_MEMORY(v8w, v8s, uint16_t)
MCP26_DEFINE_MEMORY(v8b, v8c, uint8_t)
MCP26_DEFINE_MEMORY(v8c, v8c, int8_t)
MCP26_DEFINE_VECTOR(v8f, v8i, float)

/* The first `lanes` lanes are -1. */
MCP26_INLINE v8i v8i_lane_mask(int64_t lanes) {
    return (v8i)(int32_t)lanes > (v8i){0, 1, 2, 3, 4, 5, 6, 7};
}

/* Whether any lane of a mask is set. */
MCP26_INLINE int64_t v8i_any(v8i mask) { return __builtin_reduce_or(mask) != 0; }

MCP26_INLINE v8f v8f_load(const float *p, int64_t lanes) {
    if (lanes >= 8) return v8f_load_all(p);
#if defined(__AVX2__)
    typedef float plain __attribute__((vector_size(32)));
    typedef int mask __attribute__((vector_size(32)));
    return (v8f)__builtin_ia32_maskloadps256((const plain *)(const void *)p, (mask)v8i_lane_mask(lanes));
#else
    return v8f_load_some(p, lanes);
#endif
}

MCP26_INLINE void v8f_store(float *p, v8f v, int64_t lanes) {
    if (lanes >= 8) {
        v8f_store_all(p, v);
        return;
    }
#if defined(__AVX2__)
    typedef float plain __attribute__((vector_size(32)));
    typedef int mask __attribute__((vector_size(32)));
    __builtin_ia32_maskstoreps256((plain *)(void *)p, (mask)v8i_lane_mask(lanes), (plain)v);
#else
    v8f_store_some(p, v, lanes);
#endif
}

/* a * b + c with one rounding. */
MCP26_INLINE v8f v8f_fma(v8f a, v8f b, v8f c) { return __builtin_elementwise_fma(a, b, c); }
MCP26_INLINE v8d v8d_fma(v8d a, v8d b, v8d c) { return __builtin_elementwise_fma(a, b, c); }

/* IEEE 754-2019 maximum and minimum: a NaN on either side gives NaN (as numpy and ONNX Runtime), +0 is above -0.
 * One instruction on AArch64; on x86-64 one if an operand is a non-zero constant, otherwise up to five. */
MCP26_INLINE v8f v8f_max(v8f a, v8f b) { return __builtin_elementwise_maximum(a, b); }
MCP26_INLINE v8f v8f_min(v8f a, v8f b) { return __builtin_elementwise_minimum(a, b); }

/* v8f_max(x, 0): NaN stays, -0 becomes +0. */
MCP26_INLINE v8f v8f_relu(v8f x) {
#if defined(__x86_64__)
    v8f zero = 0.0f;
    return v8f_select(zero > x, zero, x) + 0.0f; /* on a tie vmaxps keeps x: the sum turns -0 into +0 */
#else
    return v8f_max(x, 0.0f);
#endif
}

/* v8f_min(v8f_max(x, low), high). */
MCP26_INLINE v8f v8f_clip(v8f x, float low, float high) {
    v8f raised = low == 0.0f && !__builtin_signbit(low) ? v8f_relu(x) : v8f_max(x, low);
    return v8f_min(raised, high);
}

/* Integer division that never traps: by 0 the quotient is 0, and the smallest number by -1 is itself; both leave no
 * remainder. V_div truncates, V_rem has the sign of a (C's), V_mod that of b (Python's). U: V without sign. */
#define MCP26_DEFINE_DIVISION(V, U)                                                               \
    MCP26_INLINE V V##_div(V a, V b) {                                                            \
        V is_zero = (V)(b == 0), is_minus_one = (V)(b == -1);                                     \
        V quotient = a / V##_select(is_zero | is_minus_one, V##_splat(1), b);                     \
        return V##_select(is_zero, V##_splat(0), V##_select(is_minus_one, (V)(0 - (U)a), quotient)); \
    }                                                                                             \
    MCP26_INLINE V V##_rem(V a, V b) { return a % V##_select((V)((b == 0) | (b == -1)), V##_splat(1), b); } \
    MCP26_INLINE V V##_mod(V a, V b) {                                                            \
        V rest = V##_rem(a, b);                                                                   \
        return V##_select((V)((rest != 0) & ((rest ^ b) < 0)), rest + b, rest);                   \
    }
#define MCP26_DEFINE_DIVISION_UNSIGNED(V, M)                                                      \
    MCP26_INLINE V V##_div(V a, V b) {                                                            \
        M is_zero = (M)(b == 0);                                                                  \
        return V##_select(is_zero, V##_splat(0), a / V##_select(is_zero, V##_splat(1), b));       \
    }                                                                                             \
    MCP26_INLINE V V##_rem(V a, V b) { return a % V##_select((M)(b == 0), V##_splat(1), b); }     \
    MCP26_INLINE V V##_mod(V a, V b) { return V##_rem(a, b); }
MCP26_DEFINE_DIVISION(v8c, v8b)
MCP26_DEFINE_DIVISION(v8s, v8w)
MCP26_DEFINE_DIVISION(v8i, v8u)
MCP26_DEFINE_DIVISION(v8l, v8q)
MCP26_DEFINE_DIVISION_UNSIGNED(v8b, v8c)
MCP26_DEFINE_DIVISION_UNSIGNED(v8w, v8s)
MCP26_DEFINE_DIVISION_UNSIGNED(v8u, v8i)
MCP26_DEFINE_DIVISION_UNSIGNED(v8q, v8l)

MCP26_INLINE v8f v8f_abs(v8f x) { return (v8f)((v8u)x & 0x7fffffffu); }
MCP26_INLINE v8f v8f_neg(v8f x) { return (v8f)((v8u)x ^ 0x80000000u); }
MCP26_INLINE v8f v8f_copysign(v8f magnitude, v8f sign) {
    return (v8f)(((v8u)magnitude & 0x7fffffffu) | ((v8u)sign & 0x80000000u));
}
MCP26_INLINE v8f v8f_floor(v8f x) { return __builtin_elementwise_floor(x); }
MCP26_INLINE v8f v8f_ceil(v8f x) { return __builtin_elementwise_ceil(x); }
MCP26_INLINE v8f v8f_trunc(v8f x) { return __builtin_elementwise_trunc(x); }
MCP26_INLINE v8f v8f_round(v8f x) { return __builtin_elementwise_roundeven(x); } /* halves to even, ONNX Round */
MCP26_INLINE v8f v8f_sqrt(v8f x) { return __builtin_elementwise_sqrt(x); }
MCP26_INLINE v8i v8f_isnan(v8f x) { return x != x; }

MCP26_INLINE v8d v8d_max(v8d a, v8d b) { return __builtin_elementwise_maximum(a, b); }
MCP26_INLINE v8d v8d_min(v8d a, v8d b) { return __builtin_elementwise_minimum(a, b); }
MCP26_INLINE v8d v8d_relu(v8d x) { return v8d_max(x, 0.0); }
MCP26_INLINE v8d v8d_clip(v8d x, double low, double high) { return v8d_min(v8d_max(x, low), high); }
MCP26_INLINE v8d v8d_abs(v8d x) { return (v8d)((v8q)x & 0x7fffffffffffffffu); }
MCP26_INLINE v8d v8d_neg(v8d x) { return (v8d)((v8q)x ^ 0x8000000000000000u); }
MCP26_INLINE v8d v8d_copysign(v8d magnitude, v8d sign) {
    return (v8d)(((v8q)magnitude & 0x7fffffffffffffffu) | ((v8q)sign & 0x8000000000000000u));
}
MCP26_INLINE v8d v8d_floor(v8d x) { return __builtin_elementwise_floor(x); }
MCP26_INLINE v8d v8d_ceil(v8d x) { return __builtin_elementwise_ceil(x); }
MCP26_INLINE v8d v8d_trunc(v8d x) { return __builtin_elementwise_trunc(x); }
MCP26_INLINE v8d v8d_round(v8d x) { return __builtin_elementwise_roundeven(x); }
MCP26_INLINE v8d v8d_sqrt(v8d x) { return __builtin_elementwise_sqrt(x); }

/* All lanes of one vector into a scalar, always in the tree ((0+4)+(2+6)) + ((1+5)+(3+7)). */
#define MCP26_DEFINE_FOLD(NAME, V, T, OP)                                      \
    MCP26_INLINE T NAME(V v) {                                                 \
        T a = OP(v[0], v[4]), b = OP(v[1], v[5]);                              \
        T c = OP(v[2], v[6]), d = OP(v[3], v[7]);                              \
        return OP(OP(a, c), OP(b, d));                                         \
    }
#define MCP26_ADD(a, b) ((a) + (b))
#define MCP26_MUL(a, b) ((a) * (b))
MCP26_INLINE float v8f_sum(v8f v) {
    v4f four = v.lo + v.hi;
    v2f two = four.lo + four.hi;
    return two.x + two.y;
}
MCP26_DEFINE_FOLD(v8f_product, v8f, float, MCP26_MUL)
MCP26_DEFINE_FOLD(v8f_maximum, v8f, float, __builtin_elementwise_maximum)
MCP26_DEFINE_FOLD(v8f_minimum, v8f, float, __builtin_elementwise_minimum)
MCP26_INLINE int64_t v8l_sum(v8l v) { return __builtin_reduce_add(v); }
MCP26_INLINE int64_t v8l_maximum(v8l v) { return __builtin_reduce_max(v); }
MCP26_INLINE int64_t v8l_minimum(v8l v) { return __builtin_reduce_min(v); }
MCP26_INLINE int32_t v8i_sum(v8i v) { return __builtin_reduce_add(v); }
MCP26_INLINE int32_t v8i_maximum(v8i v) { return __builtin_reduce_max(v); }
MCP26_INLINE int32_t v8i_minimum(v8i v) { return __builtin_reduce_min(v); }

/* Values converted as ONNX Cast: float to integer truncates; outside the integer's range and for NaN the result is its
 * smallest value (what x86-64's cvttps2dq gives; AArch64 would saturate). */
MCP26_INLINE v8i v8i_from_v8f(v8f x) {
    v8i fits = (x >= -2147483648.0f) & (x < 2147483648.0f);
    return v8i_select(fits, __builtin_convertvector(v8f_select(fits, x, 0.0f), v8i), INT32_MIN);
}
MCP26_INLINE v8l v8l_from_v8f(v8f x) {
    v8i fits = (x >= -9223372036854775808.0f) & (x < 9223372036854775808.0f);
    v8l value = __builtin_convertvector(v8f_select(fits, x, 0.0f), v8l);
    return v8l_select(__builtin_convertvector(fits, v8l), value, INT64_MIN);
}
MCP26_INLINE v8l v8l_from_v8d(v8d x) {
    v8l fits = (x >= -9223372036854775808.0) & (x < 9223372036854775808.0);
    return v8l_select(fits, __builtin_convertvector(v8d_select(fits, x, 0.0), v8l), INT64_MIN);
}
MCP26_INLINE v8q v8q_from_v8d(v8d x) {
    v8l is_high = (x >= 0x1p63) & (x < 0x1p64);
    v8l value = v8l_from_v8d(v8d_select(is_high, x - 0x1p63, x));
    return v8q_select(is_high, (v8q)value + 0x8000000000000000u, (v8q)value);
}

MCP26_INLINE v8f v8f_from_v8i(v8i x) { return __builtin_convertvector(x, v8f); }
MCP26_INLINE v8f v8f_from_v8l(v8l x) { return __builtin_convertvector(x, v8f); }
MCP26_INLINE v8f v8f_from_v8b(v8b x) { return __builtin_convertvector(__builtin_convertvector(x, v8i), v8f); }
MCP26_INLINE v8b v8b_from_mask(v8i mask) { return __builtin_convertvector(mask & 1, v8b); }
MCP26_INLINE v8b v8b_from_v8l_mask(v8l mask) { return __builtin_convertvector(mask & 1, v8b); }
MCP26_INLINE v8i v8i_mask_from_bool(v8b x) { return __builtin_convertvector(x, v8i) != 0; }

#include "narrow.h"

#endif
