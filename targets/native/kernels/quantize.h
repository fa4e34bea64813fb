/* quantize.h: exact products of 8-bit integers, with sums of 32 bits that wrap.
 *
 * Factors are stored - zero. Eight columns at a time; one source for int8 and uint8, so that all four pairs of types
 * come out of it when `is_signed` is a literal.
 */
#ifndef MCP26_QUANTIZE_H
#define MCP26_QUANTIZE_H

#include "conv_nd.h"

typedef struct {
    const void *data;
    int64_t is_signed;
    const void *zero; /* of the same type, NULL: 0 */
    int64_t zero_step; /* 0: one zero point for all, 1: one a row of the left or a column of the right factor */
} byte_factor;

MCP26_INLINE int32_t byte_at(const void *p, int64_t is_signed, int64_t i) {
    return is_signed ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

MCP26_INLINE v8i bytes_at(const void *p, int64_t is_signed, int64_t i, int64_t lanes) {
    if (is_signed) return __builtin_convertvector(v8c_load((const int8_t *)p + i, lanes), v8i);
    return __builtin_convertvector(v8b_load((const uint8_t *)p + i, lanes), v8i);
}

MCP26_INLINE int32_t byte_zero(byte_factor f, int64_t row) {
    return f.zero ? byte_at(f.zero, f.is_signed, row * f.zero_step) : 0;
}

MCP26_INLINE v8i byte_zeros(byte_factor f, int64_t column, int64_t lanes) {
    if (!f.zero) return v8i_splat(0);
    return f.zero_step ? bytes_at(f.zero, f.is_signed, column, lanes) : v8i_splat(byte_at(f.zero, f.is_signed, 0));
}

enum { BYTE_ROWS = 4 };

/* Units of matmul_i8: blocks of BYTE_ROWS rows of one product, times the batch. */
MCP26_INLINE int64_t matmul_i8_units(int64_t batch, int64_t M) { return batch * mcp26_ceil_div(M, BYTE_ROWS); }

/* For each item of the batch: c[M][N] = a[M][K] x b[K][N], row-major; items of a and b are batch_a and batch_b apart, 0
 * shares the operand. */
MCP26_INLINE void matmul_i8(int64_t M, int64_t N, int64_t K, byte_factor a, int64_t batch_a, byte_factor b,
                            int64_t batch_b, int32_t *c, int64_t begin, int64_t end) {
    int64_t blocks = mcp26_ceil_div(M, BYTE_ROWS);
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / blocks, m = u % blocks * BYTE_ROWS, rows = mcp26_min(BYTE_ROWS, M - m), row[BYTE_ROWS];
        int32_t zero[BYTE_ROWS];
        MCP26_UNROLL for (int64_t i = 0; i < BYTE_ROWS; i++) {
            int64_t at = mcp26_min(m + i, M - 1);
            row[i] = item * batch_a + at * K;
            zero[i] = byte_zero(a, at);
        }
        for (int64_t n = 0; n < N; n += 8) {
            int64_t lanes = mcp26_min(8, N - n);
            v8i zeros = byte_zeros(b, n, lanes);
            v8u sums[BYTE_ROWS] = {0};
            for (int64_t k = 0; k < K; k++) {
                v8u right = (v8u)(bytes_at(b.data, b.is_signed, item * batch_b + k * N + n, lanes) - zeros);
                MCP26_UNROLL for (int64_t i = 0; i < BYTE_ROWS; i++) {
                    sums[i] += (v8u)v8i_splat(byte_at(a.data, a.is_signed, row[i] + k) - zero[i]) * right;
                }
            }
            MCP26_UNROLL for (int64_t i = 0; i < BYTE_ROWS; i++) {
                if (i < rows) v8i_store(c + (item * M + m + i) * N + n, (v8i)sums[i], lanes);
            }
        }
    }
}

/* y = x * w over channels-last activations of one to three axes (conv_nd.h): w[taps][in_c / groups][out_c]. What lies
 * beyond the edge is the zero point. Units: output pixels. */
MCP26_INLINE void conv_i8(window_shape s, byte_factor x, byte_factor w, int32_t *y, int64_t begin, int64_t end) {
    int64_t depth = s.in_c / s.groups, channels = s.out_c / s.groups;
    int32_t zero = byte_zero(x, 0);
    for (int64_t u = begin; u < end; u++) {
        int64_t at[3], item = u;
        for (int64_t d = 2; d >= 0; d--) {
            at[d] = item % s.out[d];
            item /= s.out[d];
        }
        for (int64_t c = 0; c < s.out_c;) {
            int64_t g = c / channels, lanes = mcp26_min(8, channels - c % channels);
            v8i zeros = byte_zeros(w, c, lanes);
            v8u sums = 0;
            for (int64_t tap = 0; tap < window_taps(s); tap++) {
                int64_t k[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
                int64_t pixel = item, is_inside = 1;
                for (int64_t d = 0; d < 3; d++) {
                    int64_t from = window_source(s, d, at[d], k[d]);
                    is_inside &= (uint64_t)from < (uint64_t)s.in[d];
                    pixel = pixel * s.in[d] + from;
                }
                for (int64_t i = 0; i < depth && is_inside; i++) {
                    int32_t left = byte_at(x.data, x.is_signed, pixel * s.in_c + g * depth + i) - zero;
                    v8i right = bytes_at(w.data, w.is_signed, (tap * depth + i) * s.out_c + c, lanes) - zeros;
                    sums += (v8u)v8i_splat(left) * (v8u)right;
                }
            }
            v8i_store(y + u * s.out_c + c, (v8i)sums, lanes);
            c += lanes;
        }
    }
}

#endif
