/* fourier.h: discrete Fourier transforms of any length, eight lines at a time.
 *
 * Mixed radix by Stockham's method, which needs no permutation: radices 4, 2, 3 and 5 are unrolled, a larger prime p
 * takes p multiplications an element. The order of all sums is that of FFTPACK.
 */
#ifndef MCP26_FOURIER_H
#define MCP26_FOURIER_H

#include "index.h"
#include "sizes.h"
#include "vmath.h"

/* Numbers of the work memory a unit, for each element of a line: two buffers of complex vectors, and room for the
 * table of roots. */
enum { FOURIER_WORK = 40 };

/* Line l of x starts at l / inner * x_outer + l % inner * x_inner and has an element every x_step; y likewise. */
typedef struct {
    int64_t n;               /* the transform's length */
    int64_t used, bins;      /* elements that a line of x has to give (the others are 0), and that one of y takes */
    int64_t x_parts, y_parts; /* 1: real, 2: complex */
    int is_inverse, is_onesided;
    int64_t lines, inner, x_outer, x_inner, x_step, y_outer, y_inner, y_step;
} fourier_shape;

/* The axis that `axis`, which is data, names: any but the last. */
MCP26_INLINE int32_t fourier_axis(mcp26_env *env, int64_t *axis, int64_t rank) {
    return index_resolve(env, axis, rank) < 0 ? MCP26_STEP_DATA : index_check(env, *axis, 0, rank - 2);
}

/* The length of a transform where none is given: that of the axis, or of the signal of which this is one side. */
MCP26_INLINE int64_t fourier_length(int is_inverse, int is_onesided, int64_t size) {
    return is_inverse && is_onesided ? 2 * (size - 1) : size;
}

MCP26_INLINE int64_t fourier_bins(int is_inverse, int is_onesided, int64_t n) {
    return is_onesided && !is_inverse ? n / 2 + 1 : n;
}

/* Transforms along an axis of x[in], row-major; the last axis holds the parts. */
MCP26_INLINE fourier_shape fourier_along(int64_t rank, const int64_t *in, int64_t axis, int64_t n, int is_inverse,
                                         int is_onesided) {
    int64_t size = in[axis], outer = 1, inner = 1;
    for (int64_t d = 0; d < axis; d++) outer *= in[d];
    for (int64_t d = axis + 1; d < rank - 1; d++) inner *= in[d];
    fourier_shape s = {.n = n, .is_inverse = is_inverse, .is_onesided = is_onesided, .inner = inner};
    s.used = min_size(is_inverse && is_onesided ? n / 2 + 1 : n, size);
    s.bins = fourier_bins(is_inverse, is_onesided, n);
    s.x_parts = in[rank - 1];
    s.y_parts = is_inverse && is_onesided ? 1 : 2;
    s.lines = outer * inner;
    s.x_inner = s.x_parts, s.x_step = inner * s.x_parts, s.x_outer = size * s.x_step;
    s.y_inner = s.y_parts, s.y_step = inner * s.y_parts, s.y_outer = s.bins * s.y_step;
    return s;
}

/* Transforms of frames of n elements, `step` apart, of x[batch][length][parts]. */
MCP26_INLINE fourier_shape fourier_frames(int64_t batch, int64_t length, int64_t parts, int64_t frames, int64_t step,
                                          int64_t n, int is_onesided) {
    fourier_shape s = {.n = n, .used = n, .x_parts = parts, .y_parts = 2, .is_onesided = is_onesided};
    s.bins = fourier_bins(0, is_onesided, n);
    s.lines = batch * frames, s.inner = frames;
    s.x_outer = length * parts, s.x_inner = step * parts, s.x_step = parts;
    s.y_outer = frames * s.bins * 2, s.y_inner = s.bins * 2, s.y_step = 2;
    return s;
}

MCP26_INLINE int64_t fourier_units(int64_t lines) { return mcp26_ceil_div(lines, 8); }

/* The next factor of a transform of length n of which `rest` is left. */
MCP26_INLINE int64_t fourier_radix(int64_t n, int64_t rest) {
    if (rest == n && __builtin_ctzll((uint64_t)n) % 2) return 2;
    if (rest % 4 == 0) return 4;
    if (rest % 3 == 0) return 3;
    int64_t radix = 5;
    while (rest % radix && radix * radix < rest) radix += 2;
    return rest % radix ? rest : radix;
}

#define FOURIER_DEFINE(NAME, V, T)                                                                                     \
    typedef struct {                                                                                                   \
        V r, i;                                                                                                        \
    } fourier_##NAME##_number;                                                                                         \
    MCP26_INLINE fourier_##NAME##_number fourier_##NAME##_sum(fourier_##NAME##_number a, fourier_##NAME##_number b) {  \
        return (fourier_##NAME##_number){a.r + b.r, a.i + b.i};                                                        \
    }                                                                                                                  \
    MCP26_INLINE fourier_##NAME##_number fourier_##NAME##_rest(fourier_##NAME##_number a, fourier_##NAME##_number b) { \
        return (fourier_##NAME##_number){a.r - b.r, a.i - b.i};                                                        \
    }                                                                                                                  \
    /* a times root k of roots[n][2], the powers of exp(2 pi i / n); sign -1 conjugates them. */                       \
    MCP26_INLINE fourier_##NAME##_number fourier_##NAME##_turned(fourier_##NAME##_number a, const T *roots, int64_t k, \
                                                                 T sign) {                                             \
        T re = roots[2 * k], im = sign * roots[2 * k + 1];                                                             \
        return (fourier_##NAME##_number){a.r * re - a.i * im, a.r * im + a.i * re};                                    \
    }                                                                                                                  \
    /* sum +- i * sign * difference: a conjugate pair of a butterfly. */                                               \
    MCP26_INLINE void fourier_##NAME##_pair(fourier_##NAME##_number even, fourier_##NAME##_number odd,                 \
                                            fourier_##NAME##_number *plus, fourier_##NAME##_number *minus) {           \
        fourier_##NAME##_number turned = {-odd.i, odd.r};                                                              \
        *plus = fourier_##NAME##_sum(even, turned), *minus = fourier_##NAME##_rest(even, turned);                      \
    }                                                                                                                  \
    /* The transform of 2 to 5 numbers. */                                                                             \
    MCP26_INLINE void fourier_##NAME##_few(int64_t radix, T sign, const fourier_##NAME##_number *a,                    \
                                           fourier_##NAME##_number *b) {                                               \
        if (radix == 2) {                                                                                              \
            b[0] = fourier_##NAME##_sum(a[0], a[1]), b[1] = fourier_##NAME##_rest(a[0], a[1]);                         \
            return;                                                                                                    \
        }                                                                                                              \
        fourier_##NAME##_number p = fourier_##NAME##_sum(a[1], a[radix - 1]);                                          \
        fourier_##NAME##_number m = fourier_##NAME##_rest(a[1], a[radix - 1]), even, odd;                              \
        if (radix == 3) {                                                                                              \
            T c = (T)-0.5, s = sign * (T)0.86602540378443864676;                                                       \
            b[0] = fourier_##NAME##_sum(a[0], p);                                                                      \
            even = (fourier_##NAME##_number){a[0].r + c * p.r, a[0].i + c * p.i};                                      \
            odd = (fourier_##NAME##_number){s * m.r, s * m.i};                                                         \
            fourier_##NAME##_pair(even, odd, b + 1, b + 2);                                                            \
        } else if (radix == 4) {                                                                                       \
            fourier_##NAME##_number q = fourier_##NAME##_sum(a[0], a[2]), d = fourier_##NAME##_rest(a[0], a[2]);       \
            b[0] = fourier_##NAME##_sum(q, p), b[2] = fourier_##NAME##_rest(q, p);                                     \
            odd = (fourier_##NAME##_number){sign * m.r, sign * m.i};                                                   \
            fourier_##NAME##_pair(d, odd, b + 1, b + 3);                                                               \
        } else {                                                                                                       \
            T c1 = (T)0.30901699437494742410, s1 = sign * (T)0.95105651629515357212;                                   \
            T c2 = (T)-0.80901699437494742410, s2 = sign * (T)0.58778525229247312917;                                  \
            fourier_##NAME##_number q = fourier_##NAME##_sum(a[2], a[3]), d = fourier_##NAME##_rest(a[2], a[3]);       \
            b[0] = fourier_##NAME##_sum(fourier_##NAME##_sum(a[0], p), q);                                             \
            even = (fourier_##NAME##_number){a[0].r + c1 * p.r + c2 * q.r, a[0].i + c1 * p.i + c2 * q.i};              \
            odd = (fourier_##NAME##_number){s1 * m.r + s2 * d.r, s1 * m.i + s2 * d.i};                                 \
            fourier_##NAME##_pair(even, odd, b + 1, b + 4);                                                            \
            even = (fourier_##NAME##_number){a[0].r + c2 * p.r + c1 * q.r, a[0].i + c2 * p.i + c1 * q.i};              \
            odd = (fourier_##NAME##_number){s2 * m.r - s1 * d.r, s2 * m.i - s1 * d.i};                                 \
            fourier_##NAME##_pair(even, odd, b + 2, b + 3);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    /* One factor: from[l1][radix][ido] to to[radix][l1][ido], where l1 * radix * ido = n. */                          \
    MCP26_INLINE void fourier_##NAME##_pass(int64_t radix, int64_t n, int64_t l1, T sign, const T *roots,              \
                                            const fourier_##NAME##_number *from, fourier_##NAME##_number *to) {        \
        int64_t ido = n / radix / l1;                                                                                  \
        for (int64_t k = 0; k < l1; k++) {                                                                             \
            for (int64_t i = 0; i < ido; i++) {                                                                        \
                const fourier_##NAME##_number *source = from + i + ido * radix * k;                                    \
                fourier_##NAME##_number a[5], b[5];                                                                    \
                if (radix <= 5) {                                                                                      \
                    MCP26_UNROLL for (int64_t j = 0; j < 5; j++) {                                                     \
                        if (j < radix) a[j] = source[ido * j];                                                         \
                    }                                                                                                  \
                    fourier_##NAME##_few(radix, sign, a, b);                                                           \
                }                                                                                                      \
                for (int64_t j = 0; j < radix; j++) {                                                                  \
                    fourier_##NAME##_number sum = radix <= 5 ? b[j] : source[0];                                       \
                    for (int64_t q = 1, at = j; radix > 5 && q < radix; q++, at = (at + j) % radix) {                  \
                        fourier_##NAME##_number term =                                                                 \
                            fourier_##NAME##_turned(source[ido * q], roots, n / radix * at, sign);                     \
                        sum = fourier_##NAME##_sum(sum, term);                                                         \
                    }                                                                                                  \
                    if (i > 0) sum = fourier_##NAME##_turned(sum, roots, j * l1 * i, sign);                            \
                    to[i + ido * (k + l1 * j)] = sum;                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* The transform of a, in a or b, which it returns. */                                                             \
    MCP26_INLINE fourier_##NAME##_number *fourier_##NAME##_lines(                                                      \
        int64_t n, T sign, const T *roots, fourier_##NAME##_number *a, fourier_##NAME##_number *b) {                   \
        for (int64_t l1 = 1; l1 < n;) {                                                                                \
            int64_t radix = fourier_radix(n, n / l1);                                                                  \
            if (radix == 4) {                                                                                          \
                fourier_##NAME##_pass(4, n, l1, sign, roots, a, b);                                                    \
            } else if (radix == 2) {                                                                                   \
                fourier_##NAME##_pass(2, n, l1, sign, roots, a, b);                                                    \
            } else if (radix == 3) {                                                                                   \
                fourier_##NAME##_pass(3, n, l1, sign, roots, a, b);                                                    \
            } else if (radix == 5) {                                                                                   \
                fourier_##NAME##_pass(5, n, l1, sign, roots, a, b);                                                    \
            } else {                                                                                                   \
                fourier_##NAME##_pass(radix, n, l1, sign, roots, a, b);                                                \
            }                                                                                                          \
            fourier_##NAME##_number *other = a;                                                                        \
            a = b, b = other, l1 *= radix;                                                                             \
        }                                                                                                              \
        return a;                                                                                                      \
    }                                                                                                                  \
    /* roots[n][2]: cosine and sine of 0 ... n-1 n-ths of a turn. */                                                   \
    MCP26_INLINE void fourier_##NAME##_roots(int64_t n, T *roots) {                                                    \
        const v8d lane = {0, 1, 2, 3, 4, 5, 6, 7};                                                                     \
        for (int64_t k = 0; k < n; k += 8) {                                                                           \
            v8d angle = ((double)k + lane) * 6.283185307179586 / (double)n;                                            \
            v8d cosine = v8d_cos(angle), sine = v8d_sin(angle);                                                        \
            MCP26_UNROLL for (int64_t j = 0; j < 8; j++) {                                                             \
                if (k + j < n) roots[2 * (k + j)] = (T)cosine[j], roots[2 * (k + j) + 1] = (T)sine[j];                 \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* y from x, times window[n] unless that is 0. `work` has FOURIER_WORK * n numbers a unit; `roots` are computed    \
     * there where they are 0. Units: eight lines. */                                                                  \
    MCP26_INLINE void fourier_##NAME(fourier_shape s, const T *x, const T *window, const T *roots, T *y, T *work,      \
                                     int64_t begin, int64_t end) {                                                     \
        if (roots == 0) {                                                                                              \
            T *table = work + (begin * FOURIER_WORK + 32) * s.n;                                                       \
            fourier_##NAME##_roots(s.n, table);                                                                        \
            roots = table;                                                                                             \
        }                                                                                                              \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            fourier_##NAME##_number *a = (fourier_##NAME##_number *)(void *)(work + u * FOURIER_WORK * s.n);           \
            int64_t lanes = mcp26_min(8, s.lines - 8 * u);                                                             \
            for (int64_t k = 0; k < s.n; k++) {                                                                        \
                fourier_##NAME##_number number = {0.0f, 0.0f};                                                         \
                for (int64_t j = 0; j < lanes && k < s.used; j++) {                                                    \
                    int64_t l = 8 * u + j;                                                                             \
                    const T *at = x + l / s.inner * s.x_outer + l % s.inner * s.x_inner + k * s.x_step;                \
                    number.r[j] = at[0];                                                                               \
                    if (s.x_parts == 2) number.i[j] = at[1];                                                           \
                }                                                                                                      \
                if (window != 0) number.r *= window[k], number.i *= window[k];                                         \
                a[k] = number;                                                                                         \
            }                                                                                                          \
            if (s.is_inverse && s.is_onesided) { /* the other side is its mirror image */                              \
                a[0].i = 0.0f;                                                                                         \
                if (s.n % 2 == 0) a[s.n / 2].i = 0.0f;                                                                 \
                for (int64_t k = 1; 2 * k < s.n; k++) {                                                                \
                    a[s.n - k] = (fourier_##NAME##_number){a[k].r, -a[k].i};                                           \
                }                                                                                                      \
            }                                                                                                          \
            a = fourier_##NAME##_lines(s.n, s.is_inverse ? 1.0f : -1.0f, roots, a, a + s.n);                           \
            if (s.x_parts == 1) { /* a real signal has real sums, alternating ones too: no sine is rounded there */    \
                a[0].i = 0.0f;                                                                                         \
                if (s.n % 2 == 0) a[s.n / 2].i = 0.0f;                                                                 \
            }                                                                                                          \
            T scale = s.is_inverse ? (T)1 / (T)s.n : (T)1;                                                             \
            for (int64_t k = 0; k < s.bins; k++) {                                                                     \
                for (int64_t j = 0; j < lanes; j++) {                                                                  \
                    int64_t l = 8 * u + j;                                                                             \
                    T *at = y + l / s.inner * s.y_outer + l % s.inner * s.y_inner + k * s.y_step;                      \
                    at[0] = a[k].r[j] * scale;                                                                         \
                    if (s.y_parts == 2) at[1] = a[k].i[j] * scale;                                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
FOURIER_DEFINE(f32, v8f, float)
FOURIER_DEFINE(f64, v8d, double)

#endif
