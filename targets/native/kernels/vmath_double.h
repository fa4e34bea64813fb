/* vmath_double.h: elementary functions of double on 8 lanes, and powers of integers, the same bits on every ISA (only +,
 * *, /, fma and integer operations).
 *
 * Largest errors, in units in the last place, as tests/kernels measures them by samples:
 *
 *     log 0.6; exp 1; log1p, expm1, pow, sin, cos, atan 2; erf 12; the others 4; fmod 0
 *     gelu 12, of 4 where that is more
 *
 * Infinities, zeros, denormals and NaN give what they give in C's libm, and angles may be of any size.
 */
#ifndef MCP26_VMATH_DOUBLE_H
#define MCP26_VMATH_DOUBLE_H

#include "simd.h"

#define MCP26_INFINITY __builtin_inff()
#define MCP26_NAN __builtin_nanf("")

/* 2^n for -1022 <= n <= 1023. */
MCP26_INLINE v8d vmath_power_of_two_d(v8l n) { return (v8d)((n + 1023) << 52); }

/* x = n ln 2 + r with |r| <= ln 2 / 2, for |x| < 2^30. */
typedef struct {
    v8l n;
    v8d r;
} vmath_reduced_d;

MCP26_INLINE vmath_reduced_d vmath_reduce_d(v8d x) {
    /* Adding 1.5 * 2^52 rounds to an integer, which then sits in the low bits. */
    v8d shifted = v8d_fma(x, 0x1.71547652b82fep+0, 0x1.8p52);
    v8d n = shifted - 0x1.8p52;
    v8d r = v8d_fma(n, -0x1.62e42fefa39efp-1, x);
    return (vmath_reduced_d){(v8l)shifted - 0x4338000000000000, v8d_fma(n, -0x1.abc9e3b39803fp-56, r)};
}

/* e^r - 1 for |r| <= ln 2 / 2: Taylor's series to r^13. */
MCP26_INLINE v8d vmath_expm1_d(v8d r) {
    const double inverse[12] = {1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                                1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    v8d p = inverse[11];
    MCP26_UNROLL for (int k = 10; k >= 0; k--) p = v8d_fma(p, r, inverse[k]);
    return v8d_fma(p, r * r, r);
}

MCP26_INLINE v8d v8d_exp(v8d x) {
    x = v8d_select(x > 710.0, 710.0, x); /* a NaN passes both */
    x = v8d_select(x < -746.0, -746.0, x);
    vmath_reduced_d t = vmath_reduce_d(x);
    v8l half = t.n >> 1; /* in two steps: n may lie beyond the exponent's range at both ends */
    return (vmath_expm1_d(t.r) + 1.0) * vmath_power_of_two_d(half) * vmath_power_of_two_d(t.n - half);
}

MCP26_INLINE v8d v8d_expm1(v8d x) {
    x = v8d_select(x > 710.0, 710.0, x); /* a NaN passes both */
    x = v8d_select(x < -40.0, -40.0, x);
    vmath_reduced_d t = vmath_reduce_d(x);
    v8d half = vmath_power_of_two_d(t.n - 1); /* half the power: n may be 1024 */
    return v8d_copysign(v8d_fma(vmath_expm1_d(t.r), half, half - 0.5) * 2.0, x); /* -0 stays */
}

/* log m + e ln 2 as a sum of two doubles, for x = m 2^e with m in [sqrt(1/2), sqrt(2)), positive and finite: atanh's
 * series of s = (m - 1) / (m + 1). */
typedef struct {
    v8d high, low;
} vmath_pair;

MCP26_INLINE vmath_pair vmath_log_d(v8d x) {
    v8l is_tiny = x < 0x1p-1022;
    v8l bits = (v8l)v8d_select(is_tiny, x * 0x1p54, x);
    v8l e = (bits - 0x3fe6a09e667f3bcd) >> 52;
    v8d n = __builtin_convertvector(e, v8d) - v8d_select(is_tiny, 54.0, 0.0);
    v8d f = (v8d)(bits - (e << 52)) - 1.0;
    v8d d = f + 2.0, s = f / d;
    v8d rest = (v8d_fma(-s, d, f) - s * (f - (d - 2.0))) / d; /* what s lacks */
    v8d z = s * s, p = 2.0 / 25;
    MCP26_UNROLL for (int k = 23; k >= 3; k -= 2) p = v8d_fma(p, z, 2.0 / k);
    v8d high = s * 2.0, low = v8d_fma(p * z, s, rest * 2.0);
    v8d base = n * 0x1.62e42fefa39efp-1, error = v8d_fma(n, 0x1.62e42fefa39efp-1, -base);
    v8d sum = base + high, lost = v8d_select(n == 0.0, 0.0, high - (sum - base)); /* |base| > |high| unless n is 0 */
    low = low + lost + v8d_fma(n, 0x1.abc9e3b39803fp-56, error);
    v8d total = sum + low;
    return (vmath_pair){total, low - (total - sum)};
}

MCP26_INLINE v8d v8d_log(v8d x) {
    v8l is_ordinary = (x > 0.0) & (x < (double)MCP26_INFINITY);
    v8d r = vmath_log_d(v8d_select(is_ordinary, x, 1.0)).high;
    v8d special = v8d_select(x == 0.0, -(double)MCP26_INFINITY, v8d_select(x > 0.0, x, (double)MCP26_NAN));
    return v8d_select(is_ordinary, r, special);
}

MCP26_INLINE v8d v8d_log1p(v8d x) {
    v8d u = 1.0 + x;
    v8d lost = (x - (u - 1.0)) / u;
    v8d r = v8d_log(u) + v8d_select((u > 0.0) & (u < (double)MCP26_INFINITY), lost, 0.0);
    return v8d_select(x == 0.0, x, r); /* -0 stays */
}

/* x to the power y: e^(y log x) with the logarithm and the product in two doubles. */
MCP26_INLINE v8d v8d_pow(v8d x, v8d y) {
    const double infinity = (double)MCP26_INFINITY, nan = (double)MCP26_NAN;
    v8d t = v8d_abs(x), half = y * 0.5;
    v8l is_integer = v8d_trunc(y) == y;
    v8l is_odd = is_integer & (v8d_trunc(half) != half);
    v8l is_ordinary = (t > 0.0) & (t < infinity), y_finite = v8d_abs(y) < infinity;
    vmath_pair l = vmath_log_d(v8d_select(is_ordinary, t, 1.0));
    v8d z = v8d_select(y_finite, y, 0.0), p = z * l.high;
    v8l is_moderate = v8d_abs(p) < 1000.0;
    v8d e = v8d_exp(p), rest = v8d_fma(z, l.low, v8d_fma(z, l.high, -p));
    v8d r = v8d_select(is_moderate & (e < infinity), v8d_fma(e, rest, e), e);
    /* 0, infinity, or |x| against 1 to an infinite power: the result is 0, 1 or infinity. */
    v8d extreme = v8d_select((t > 1.0) == (y > 0.0), infinity, 0.0);
    r = v8d_select(is_ordinary & y_finite, r, v8d_select(t == 1.0, 1.0, extreme));
    r = v8d_select(is_odd & ((v8l)x < 0), v8d_neg(r), r);
    r = v8d_select((x < 0.0) & (x > -infinity) & y_finite & ~is_integer, nan, r);
    r = v8d_select((x != x) | (y != y), nan, r);
    return v8d_select((y == 0.0) | (x == 1.0), 1.0, r);
}

MCP26_INLINE v8d v8d_tanh(v8d x) {
    v8d two = v8d_abs(x) * 2.0;
    v8d e = v8d_expm1(v8d_select(two > 60.0, 60.0, two));
    return v8d_copysign(e / (e + 2.0), x);
}

MCP26_INLINE v8d v8d_sigmoid(v8d x) {
    v8d e = v8d_exp(v8d_neg(v8d_abs(x)));
    return v8d_select(x < 0.0, e, 1.0) / (e + 1.0);
}

/* Kummer's series, whose terms are all positive: 2 x e^-x^2 / sqrt(pi) sum (2 x^2)^n / (1 3 5 ... (2 n + 1)). */
MCP26_INLINE v8d v8d_erf(v8d x) {
    v8d a = v8d_abs(x);
    a = v8d_select(a > 6.0, 6.0, a); /* a NaN passes */
    v8d z = a * a, sum = 1.0;
    MCP26_ROLL for (int n = 130; n >= 1; n--) sum = v8d_fma(sum * z, 2.0 / (2 * n + 1), 1.0);
    v8d r = a * 0x1.20dd750429b6dp+0 * v8d_exp(-z) * sum;
    return v8d_copysign(v8d_select(r > 1.0, 1.0, r), x);
}

MCP26_INLINE v8d v8d_gelu(v8d x) { return 0.5 * x * (1.0 + v8d_erf(x * 0x1.6a09e667f3bcdp-1)); }

/* Quarter turns of an angle, to the nearest one and modulo 4, and the angle that is left. */
typedef struct {
    double n, r;
} vmath_turned;

/* For 1 <= |x| < infinity (M. Payne, R. Hanek, Radian reduction for trigonometric functions, 1983). x is an integer m
 * times 2^e, so of 2 / pi only 192 bits count: those above make whole turns, those below too little. */
static inline __attribute__((noinline)) vmath_turned vmath_turn_large(double x) {
    static const uint64_t two_over_pi[] = { /* one word of zeros, then the digits after the point */
        0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
        0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
        0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
    union {
        double value;
        uint64_t bits;
    } u = {x};
    int64_t e = (int64_t)(u.bits >> 52 & 0x7ff) - 1075, first = e + 62;
    uint64_t m = (u.bits & 0xfffffffffffff) | 0x10000000000000, w[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t *word = two_over_pi + first / 64 + i;
        w[i] = first % 64 ? word[0] << first % 64 | word[1] >> (64 - first % 64) : word[0];
    }
    /* The product's upper 128 of 192 bits: two of quarter turns, then the fraction. */
    unsigned __int128 low = (unsigned __int128)m * w[2], middle = (unsigned __int128)m * w[1] + (uint64_t)(low >> 64);
    uint64_t high = m * w[0] + (uint64_t)(middle >> 64), rest = (uint64_t)middle;
    int64_t fraction = (int64_t)(high << 2 | rest >> 62), below = (int64_t)(rest << 2 >> 1);
    double n = (double)((int64_t)(high >> 62) + (fraction < 0));
    double r = ((double)fraction * 0x1p-64 + (double)below * 0x1p-127) * 0x1.921fb54442d18p+0;
    return x < 0.0 ? (vmath_turned){-n, -r} : (vmath_turned){n, r};
}

/* Sine and cosine of what is left of a finite x after n quarter turns: Cody-Waite reduction and Taylor series. */
typedef struct {
    v8d n, sine, cosine;
} vmath_angle;

MCP26_INLINE vmath_angle vmath_turn(v8d x) {
    v8d n = v8d_round(x * 0x1.45f306dc9c883p-1);
    v8d r = v8d_fma(n, -0x1.921fb54442d18p+0, x);
    r = v8d_fma(n, -0x1.1a62633145c07p-54, r);
    if (__builtin_reduce_or(v8d_abs(x) >= 0x1p30)) {
        MCP26_ROLL for (int i = 0; i < 8; i++) {
            if (x[i] < 0x1p30 && x[i] > -0x1p30) continue;
            vmath_turned t = vmath_turn_large(x[i]);
            n[i] = t.n, r[i] = t.r;
        }
    }
    v8d z = r * r, s = 1.0 / 355687428096000, c = 1.0 / 6402373705728000;
    const double odd[8] = {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                           -1.0 / 1307674368000};
    const double even[9] = {1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                            -1.0 / 87178291200, 1.0 / 20922789888000};
    c = -c;
    MCP26_UNROLL for (int k = 7; k >= 1; k--) s = v8d_fma(s, z, odd[k]);
    MCP26_UNROLL for (int k = 8; k >= 0; k--) c = v8d_fma(c, z, even[k]);
    return (vmath_angle){n, v8d_fma(s * z, r, r), c};
}

/* sin(x + quarters * pi / 2). */
MCP26_INLINE v8d vmath_sin(v8d x, double quarters) {
    v8l is_finite = v8d_abs(x) < (double)MCP26_INFINITY;
    vmath_angle t = vmath_turn(v8d_select(is_finite, x, 0.0));
    v8d n = t.n + quarters, quadrant = n - 4.0 * v8d_floor(n * 0.25);
    v8d value = v8d_select((quadrant == 1.0) | (quadrant == 3.0), t.cosine, t.sine);
    value = v8d_select(quadrant >= 2.0, -value, value);
    if (quarters == 0.0) value = v8d_select(x == 0.0, x, value);
    return v8d_select(is_finite, value, (double)MCP26_NAN);
}

MCP26_INLINE v8d v8d_sin(v8d x) { return vmath_sin(x, 0.0); }
MCP26_INLINE v8d v8d_cos(v8d x) { return vmath_sin(x, 1.0); }

MCP26_INLINE v8d v8d_tan(v8d x) {
    v8l is_finite = v8d_abs(x) < (double)MCP26_INFINITY;
    vmath_angle t = vmath_turn(v8d_select(is_finite, x, 0.0));
    v8d half = t.n * 0.5;
    v8d value = v8d_select(v8d_floor(half) == half, t.sine / t.cosine, -t.cosine / t.sine);
    return v8d_select(is_finite, v8d_select(x == 0.0, x, value), (double)MCP26_NAN);
}

/* Twice reduced, to |t| <= tan(pi / 8): by the reciprocal and by (t - 1) / (t + 1). */
MCP26_INLINE v8d v8d_atan(v8d x) {
    v8d a = v8d_abs(x);
    v8l is_large = a > 1.0;
    v8d t = v8d_select(is_large, 1.0 / a, a);
    v8l is_middle = t > 0x1.a827999fcef32p-2;
    t = v8d_select(is_middle, (t - 1.0) / (t + 1.0), t);
    v8d z = t * t, p = 1.0 / 45;
    MCP26_UNROLL for (int k = 43; k >= 3; k -= 2) p = v8d_fma(p, -z, 1.0 / k);
    v8d r = v8d_fma(p * -z, t, t);
    r = v8d_select(is_middle, (r + 0x1.1a62633145c07p-55) + 0x1.921fb54442d18p-1, r);
    r = v8d_select(is_large, (0x1.1a62633145c07p-54 - r) + 0x1.921fb54442d18p+0, r);
    return v8d_copysign(r, x);
}

MCP26_INLINE v8d v8d_asin(v8d x) { return v8d_atan(x / v8d_sqrt((1.0 - x) * (1.0 + x))); }
MCP26_INLINE v8d v8d_acos(v8d x) { return 2.0 * v8d_atan(v8d_sqrt((1.0 - x) / (1.0 + x))); }

/* e^|x| / 2 where e^|x| would be infinite. */
MCP26_INLINE v8d vmath_half_exp(v8d a) { return v8d_exp(a - 1.0) * 0x1.5bf0a8b145769p+0; }

MCP26_INLINE v8d v8d_sinh(v8d x) {
    v8d a = v8d_abs(x), t = v8d_expm1(a);
    v8d r = v8d_select(a > 700.0, vmath_half_exp(a), (t + t / (t + 1.0)) * 0.5);
    return v8d_copysign(r, x);
}

MCP26_INLINE v8d v8d_cosh(v8d x) {
    v8d a = v8d_abs(x), e = v8d_exp(a);
    return v8d_select(a > 700.0, vmath_half_exp(a), (e + 1.0 / e) * 0.5);
}

MCP26_INLINE v8d v8d_asinh(v8d x) {
    v8d a = v8d_abs(x), z = a * a;
    v8d r = v8d_log1p(a + z / (1.0 + v8d_sqrt(1.0 + z)));
    return v8d_copysign(v8d_select(a > 1e100, v8d_log(a) + 0x1.62e42fefa39efp-1, r), x);
}

MCP26_INLINE v8d v8d_acosh(v8d x) {
    v8d t = x - 1.0;
    v8d r = v8d_log1p(t + v8d_sqrt(t * (x + 1.0)));
    r = v8d_select(x > 1e100, v8d_log(x) + 0x1.62e42fefa39efp-1, r);
    return v8d_select(x >= 1.0, r, (double)MCP26_NAN);
}

MCP26_INLINE v8d v8d_atanh(v8d x) {
    v8d a = v8d_abs(x);
    return v8d_copysign(v8d_log1p(2.0 * a / (1.0 - a)) * 0.5, x);
}

/* x - y trunc(x / y), exactly: quotients of 26 bits, whose products with y leave no rounding error, until less than y
 * is left. */
MCP26_INLINE v8d v8d_fmod(v8d x, v8d y) {
    v8d b = v8d_abs(y), r = v8d_abs(x);
    v8l is_ordinary = (r < (double)MCP26_INFINITY) & (b > 0.0) & (b < (double)MCP26_INFINITY);
    v8l is_valid = (r < (double)MCP26_INFINITY) & (b > 0.0);
    r = v8d_select(is_ordinary, r, 0.0);
    b = v8d_select(is_ordinary, b, 1.0);
    for (;;) {
        v8l open = v8d_abs(r) >= b;
        if (!__builtin_reduce_or(open)) break;
        v8d c = b, q = r / c;
        if (__builtin_reduce_or(q == (double)MCP26_INFINITY)) { /* multiples of b serve as well */
            c = v8d_select(q == (double)MCP26_INFINITY, b * 0x1p1000, c);
            c = v8d_select(r / c == (double)MCP26_INFINITY, c * 0x1p74, c);
            q = r / c;
        }
        q = v8d_trunc((v8d)((v8q)q & 0xfffffffff8000000u));
        r = v8d_select(open, v8d_fma(-q, c, r), r);
    }
    r = v8d_select(r < 0.0, r + b, r); /* a quotient may have been rounded up */
    r = v8d_select(is_ordinary, r, v8d_abs(x));
    return v8d_select(is_valid, v8d_copysign(r, x), (double)MCP26_NAN);
}

/* Powers of integers, which wrap around. A negative exponent leaves something of 1 and -1 only. */
MCP26_INLINE v8l v8l_pow(v8l x, v8l y) {
    v8q base = (v8q)x, result = 1, rest = (v8q)y;
    rest = v8q_select(y < 0, rest & 1, rest);
    base = v8q_select((y < 0) & (x != 1) & (x != -1), v8q_splat(0), base);
    result = v8q_select((y < 0) & (x != 1) & (x != -1), v8q_splat(0), result);
    while (__builtin_reduce_or(rest)) {
        result = v8q_select((v8l)((rest & 1) != 0), result * base, result);
        base *= base;
        rest >>= 1;
    }
    return (v8l)result;
}

/* x^y truncated to an integer, where what is an integer but for a rounding error counts as that. */
MCP26_INLINE v8l v8l_pow_v8d(v8l x, v8d y) {
    v8d r = v8d_pow(__builtin_convertvector(x, v8d), y);
    return v8l_from_v8d(v8d_fma(r, 0x1p-50, r));
}

#endif
