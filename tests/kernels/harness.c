/* A freestanding program that runs kernels: calls come on standard input, results go to standard output.
 *
 * A call is int64 numbers: kernel, NUMBERS parameters, count of buffers; then each buffer as its size in bytes, a flag
 * whether it is a result, and its bytes padded to 8. Every buffer ends at an unmapped page, so that reading or
 * writing beyond it ends the program. Kernel k >= STATIC is entry k - STATIC of cases.inc, whose parameters
 * are literals; below it the parameters are run-time variables.
 */
#include "attention.h"
#include "conv.h"
#include "conv_few.h"
#include "conv_nd.h"
#include "depthwise.h"
#include "depthwise_i8.h"
#include "elementwise.h"
#include "gemm.h"
#include "gemm_i8.h"
#include "gemm_q8.h"
#include "gemm_words.h"
#include "matmul.h"
#include "move.h"
#include "normalize.h"
#include "pool.h"
#include "quantize.h"
#include "recurrent.h"
#include "reduce.h"
#include "resize.h"
#include "separable.h"
#include "softmax.h"
#include "vmath.h"
#include "winograd.h"
#include "winograd_i8.h"
#include "winograd_line.h"

enum { NUMBERS = 32, BUFFERS = 12, STATIC = 1000, PAGE = 4096 };

/* ---- system calls */

#if defined(__x86_64__)
enum { SYS_READ = 0, SYS_WRITE = 1, SYS_MMAP = 9, SYS_MPROTECT = 10, SYS_MUNMAP = 11, SYS_EXIT = 60 };
static int64_t system_call(int64_t number, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) {
    int64_t result;
    register int64_t r10 __asm__("r10") = d;
    register int64_t r8 __asm__("r8") = e;
    register int64_t r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
__asm__(".globl _start\n_start: xor %ebp, %ebp\n and $-64, %rsp\n call program\n");
#else
enum { SYS_READ = 63, SYS_WRITE = 64, SYS_MMAP = 222, SYS_MPROTECT = 226, SYS_MUNMAP = 215, SYS_EXIT = 93 };
static int64_t system_call(int64_t number, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f) {
    register int64_t x8 __asm__("x8") = number;
    register int64_t x0 __asm__("x0") = a;
    register int64_t x1 __asm__("x1") = b;
    register int64_t x2 __asm__("x2") = c;
    register int64_t x3 __asm__("x3") = d;
    register int64_t x4 __asm__("x4") = e;
    register int64_t x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
__asm__(".globl _start\n_start: bl program\n");
#endif

static void leave(int64_t status) {
    for (;;) system_call(SYS_EXIT, status, 0, 0, 0, 0, 0);
}

static int read_all(void *to, int64_t size) {
    for (int64_t got = 0; got < size;) {
        int64_t n = system_call(SYS_READ, 0, (int64_t)to + got, size - got, 0, 0, 0);
        if (n <= 0) return 0;
        got += n;
    }
    return 1;
}

static void write_all(const void *from, int64_t size) {
    for (int64_t done = 0; done < size;) {
        int64_t n = system_call(SYS_WRITE, 1, (int64_t)from + done, size - done, 0, 0, 0);
        if (n <= 0) leave(2);
        done += n;
    }
}

/* ---- kernels: n parameters, p buffers */

#define THREE(n) {(n)[0], (n)[1], (n)[2]}

#define RUN_UNITS(units, chunk, call)                                                   \
    for (int64_t begin = 0, all_ = units; begin < all_; begin += chunk) {               \
        int64_t end = mcp26_min(begin + chunk, all_);                                   \
        call;                                                                           \
    }

/* args: bias by column, addend by row and column, the addend's row length. */
MCP26_INLINE v8f bias_and_add(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    return acc + v8f_load(ARG(float, 0) + n, lanes) + v8f_load(ARG(float, 1) + m * ARG(int64_t, 2)[0] + n, lanes);
}

MCP26_INLINE void run_gemm(const int64_t *n, void **p) {
    const void *args[] = {p[2], p[3], &n[4]};
    RUN_UNITS(gemm_f32_units(n[0], n[1], n[2]), n[5],
              gemm_f32(n[0], n[1], n[2], p[0], n[3], p[1], p[4], n[4], bias_and_add, args, begin, end))
}

/* args: the result, the length of its rows. */
MCP26_INLINE void store_sums(v8i sum, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    v8i_store(OUT(int32_t, 0) + m * ARG(int64_t, 1)[0] + n, sum, lanes);
}

/* n: rows, columns, depth, signed, zero point, chunk, whether AVX2 takes the lists of steps. */
MCP26_INLINE void run_gemm_i8(const int64_t *n, void **p) {
    const void *args[] = {p[3], &n[1]};
    byte_weights w = {p[1], p[2], NULL, NULL, NULL};
    if (BYTE_ORDERS > 1 && n[6]) w = (byte_weights){p[5], p[2], NULL, p[6], p[7]};
    RUN_UNITS(gemm_i8_units(n[0], n[1], n[2]), n[5],
              gemm_i8(n[0], n[1], n[2], ((byte_rows){p[0], n[3], (int32_t)n[4]}), w, store_sums, args, p[4], begin, end))
}

/* n as for gemm_i8. p: a, panels of words, addends of the columns, result, scratch. */
MCP26_INLINE void run_gemm_words(const int64_t *n, void **p) {
    const void *args[] = {p[3], &n[1]};
    RUN_UNITS(gemm_words_units(n[0]), n[5],
              gemm_words(n[0], n[1], n[2], ((byte_rows){p[0], n[3], (int32_t)n[4]}), p[1], n[6] ? p[2] : NULL,
                         store_sums, args, p[4], begin, end))
}

/* n: rows, columns, depth, block, kind (int8, uint8 with zero points, int4), chunk. p: a, stored, scale, zero, scratch. */
MCP26_INLINE void run_gemm_weights(const int64_t *n, void **p) {
    weight_panels w = {p[1], p[2], n[4] == 1 ? p[3] : NULL, n[3], 1, 0};
    weight_load loads[] = {weight_load_i8, weight_load_u8, weight_load_i4};
#define WEIGHTS(KIND)                                                                                              \
    if (n[4] == KIND)                                                                                              \
        RUN_UNITS(weight_units(n[0], n[1], n[2]), n[5],                                                            \
                  gemm_weights(n[0], n[1], n[2], p[0], n[2], w, loads[KIND], p[5], n[1], epilogue_none, NULL, p[4], \
                               begin, end))
    WEIGHTS(0) WEIGHTS(1) WEIGHTS(2)
}

/* n: batch, rows, columns, depth, whether the left factor is the signed one, chunk; a zero point a row and a column. */
MCP26_INLINE void run_matmul_i8(const int64_t *n, void **p) {
    byte_factor a = {p[0], n[4], p[2], 1}, b = {p[1], !n[4], p[3], 1};
    RUN_UNITS(matmul_i8_units(n[0], n[1]), n[5],
              matmul_i8(n[1], n[2], n[3], a, n[1] * n[3], b, n[2] * n[3], p[4], begin, end))
}

MCP26_INLINE void run_matmul(const int64_t *n, void **p) {
    const void *args[] = {p[2], p[3], &n[8]};
    RUN_UNITS(matmul_f32_units(n[0], n[1], n[2], n[3]), n[10],
              matmul_f32(n[0], n[1], n[2], n[3], p[0], n[4], n[5], p[1], n[6], n[7], p[4], n[8], n[9], bias_and_add,
                         args, begin, end))
}

MCP26_INLINE conv_shape shape_of(const int64_t *n) {
    return (conv_shape){.batch = n[0], .in_h = n[1], .in_w = n[2], .in_c = n[3], .x_pixel = n[4], .out_h = n[5],
                        .out_w = n[6], .out_c = n[7], .y_pixel = n[8], .kernel_h = n[9], .kernel_w = n[10],
                        .stride_h = n[11], .stride_w = n[12], .dilation_h = n[13], .dilation_w = n[14],
                        .pad_top = n[15], .pad_left = n[16], .groups = n[17]};
}

MCP26_INLINE void run_conv(const int64_t *n, void **p) {
    const void *args[] = {p[3], p[4], &n[8]};
    RUN_UNITS(conv_f32_units(shape_of(n)), n[18],
              conv_f32(shape_of(n), p[0], p[1], p[2], p[5], bias_and_add, args, begin, end))
}

/* n[19]: pairs, n[20 ... 22]: points in sixteenths, n[23]: tiles of a block, n[24]: channels of a chain. */
MCP26_INLINE void run_winograd(const int64_t *n, void **p) {
    const void *args[] = {p[3], p[4], &n[8]};
    winograd_shape w = {shape_of(n), n[19], {}, n[23], n[24]};
    MCP26_UNROLL for (int64_t i = 0; i < WINOGRAD_PAIRS; i++) w.points[i] = (float)n[20 + i] / 16.0f;
    RUN_UNITS(winograd_units(w), n[18],
              winograd_f32(w, p[0], p[1], p[5], bias_and_add, args, p[2], begin, end))
}

/* n[19]: points, n[20 ... 22]: the positive ones in sixteenths, n[23]: tiles of a block, n[24]: channels of a chain. */
MCP26_INLINE void run_winograd_line(const int64_t *n, void **p) {
    const void *args[] = {p[3], p[4], &n[8]};
    winograd_line_shape w = {shape_of(n), n[19], {}, n[23], n[24]};
    MCP26_UNROLL for (int64_t i = 0; i < WINOGRAD_PAIRS; i++) w.points[i] = (float)n[20 + i] / 16.0f;
    RUN_UNITS(winograd_line_units(w), n[18],
              winograd_line_f32(w, p[0], p[1], p[5], bias_and_add, args, p[2], begin, end))
}

MCP26_INLINE void run_conv_few(const int64_t *n, void **p) {
    const void *args[] = {p[3], p[4], &n[8]};
    conv_shape s = shape_of(n);
    if (!conv_few_fits(s)) leave(3);
    if (n[19]) {
        conv_strides st = {s.in_h * s.in_w * s.x_pixel, 1, s.in_w * s.x_pixel, s.x_pixel};
        RUN_UNITS(conv_few_f32_units(s), n[18], conv_few_f32(s, p[0], st, p[1], p[5], bias_and_add, args, begin, end))
    } else {
        RUN_UNITS(conv_few_f32_units(s), n[18], conv_nchw_in_f32(s, p[0], p[1], p[5], bias_and_add, args, begin, end))
    }
}

MCP26_INLINE void run_depthwise(const int64_t *n, void **p) {
    const void *args[] = {p[3], p[4], &n[8]};
    RUN_UNITS(depthwise_f32_units(shape_of(n)), n[18],
              depthwise_f32(shape_of(n), p[0], p[1], p[5], bias_and_add, args, begin, end))
}

/* n[19]: signed, n[20]: zero point. */
MCP26_INLINE void run_depthwise_i8(const int64_t *n, void **p) {
    const void *args[] = {p[3], &n[8]};
    byte_rows x = {p[0], n[19], (int32_t)n[20]};
    RUN_UNITS(depthwise_i8_units(shape_of(n)), n[18],
              depthwise_i8(shape_of(n), x, p[1], p[2], store_sums, args, p[4], begin, end))
}

/* n[19]: signed, n[20]: zero point, n[21]: tiles of a block. */
MCP26_INLINE void run_winograd_i8(const int64_t *n, void **p) {
    const void *args[] = {p[2], &n[8]};
    byte_rows x = {p[0], n[19], (int32_t)n[20]};
    RUN_UNITS(winograd_i8_units(shape_of(n), n[21]), n[18],
              winograd_i8(shape_of(n), n[21], x, p[1], store_sums, args, p[3], begin, end))
}

MCP26_INLINE v8f clip_of_bias(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)m;
    return v8f_clip(acc + v8f_load(ARG(float, 3) + n, lanes), -1.0f, 1.0f);
}

MCP26_INLINE v8f other_bias_and_add(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    return bias_and_add(acc, args + 4, m, n, lanes);
}

/* n: a depthwise convolution, chunk, expand_c, project_c, band, ring. p: x, expand, taps, project, bias and addend of
 * the first, bias of the second, bias and addend of the third, y, scratch. */
MCP26_INLINE void run_separable(const int64_t *n, void **p) {
    const void *args[] = {p[4], p[5], &n[3], p[6], p[7], p[8], &n[20]};
    separable_shape s = {shape_of(n), n[19], n[20], n[21], n[22]};
    RUN_UNITS(separable_f32_units(s), n[18],
              separable_f32(s, p[0], p[1], bias_and_add, p[2], clip_of_bias, p[3], other_bias_and_add, p[9], args,
                            p[10], begin, end))
}

/* n: batch, channels, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], end[3], chunk, kind, p, elements between
 * pixels. */
MCP26_INLINE void run_pool(const int64_t *n, void **p) {
    pool_shape s = {.batch = n[0], .channels = n[1], .x_pixel = n[1] + n[26], .y_pixel = n[1] + n[26],
                    .in = THREE(n + 2), .out = THREE(n + 5), .kernel = THREE(n + 8),
                    .stride = THREE(n + 11), .dilation = THREE(n + 14), .pad = THREE(n + 17), .end = THREE(n + 20)};
    RUN_UNITS(pool_units(s), n[23], pool_f32((pool_kind)n[24], (float)n[25], s, p[0], p[1], begin, end))
}

/* n: kind, p, batch, pixels, channels, chunk. */
MCP26_INLINE void run_pool_global(const int64_t *n, void **p) {
    RUN_UNITS(pool_global_units(n[2], n[4]), n[5],
              pool_global_f32((pool_kind)n[0], (float)n[1], n[2], n[3], n[4], p[0], p[1], begin, end))
}

/* n: batch, in_c, out_c, groups, in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], is_transposed, chunk, form: 0
 * packed, 1 loose [taps][in_c / groups][out_c], 2 one filter a channel, 3 spread. */
MCP26_INLINE void run_window(const int64_t *n, void **p) {
    const void *args[] = {p[3], p[4], &n[2]};
    window_shape s = {.batch = n[0], .in_c = n[1], .out_c = n[2], .groups = n[3], .in = THREE(n + 4), .out = THREE(n + 7),
                      .kernel = THREE(n + 10), .stride = THREE(n + 13), .dilation = THREE(n + 16), .pad = THREE(n + 19),
                      .is_transposed = (int)n[22]};
    if (n[24] == 0)
        RUN_UNITS(window_f32_units(s), n[23], window_f32(s, p[0], p[1], p[2], p[5], bias_and_add, args, begin, end))
    if (n[24] == 1)
        RUN_UNITS(window_plain_units(s), n[23],
                  window_plain_f32(s, p[0], p[1], n[1] / n[3] * n[2], n[2] / n[3], n[2], p[5], bias_and_add, args, begin,
                                   end))
    if (n[24] == 3)
        RUN_UNITS(window_spread_units(s), n[23], window_spread_f32(s, p[0], p[1], p[5], bias_and_add, args, begin, end))
    if (n[24] == 2)
        RUN_UNITS(window_plain_units(s), n[23], window_channels_f32(s, p[0], p[1], p[5], bias_and_add, args, begin, end))
}

/* n: mode, coordinates, rounding, antialias, exclude_outside, chunk, lines, inner, rank, then in, out, is_resized of each
 * axis; of the nearest, elements between runs of x and of y. Scales are out / in, a crop takes 0.1 ... 0.8 of an axis. */
MCP26_INLINE void run_resize(const int64_t *n, void **p) {
    resize_method m = {(resize_mode)n[0], (resize_coordinates)n[1], (resize_rounding)n[2], (int)n[3], (int)n[4], -0.75f};
    resize_axis axes[RESIZE_RANK];
    for (int64_t d = 0; d < n[8]; d++) {
        const int64_t *axis = n + 9 + 3 * d;
        axes[d] = (resize_axis){axis[0], axis[1], (int)axis[2], (float)axis[1] / (float)axis[0], 0.1f, 0.8f};
    }
    if (m.mode == RESIZE_NEAREST)
        RUN_UNITS(resize_units(n[6], axes[n[8] - 1].out), n[5],
                  resize_nearest_32(m, n[8], axes, n[7], n[7] + n[9 + 3 * n[8]], n[7] + n[10 + 3 * n[8]], p[0], p[1], 0,
                                    begin, end))
    else
        RUN_UNITS(resize_units(n[6], axes[n[8] - 1].out), n[5],
                  resize_f32(m, n[8], axes, n[7], p[0], p[1], 0.0f, begin, end))
}

#define EACH_FUNCTION(X)                                                                                          \
    X(0, v8f_exp(a)) X(1, v8f_log(a)) X(2, v8f_tanh(a)) X(3, v8f_sigmoid(a)) X(4, v8f_erf(a)) X(5, v8f_sin(a))     \
    X(6, v8f_cos(a)) X(7, v8f_sqrt(a)) X(8, v8f_floor(a)) X(9, v8f_ceil(a)) X(10, v8f_round(a))                    \
    X(11, v8f_trunc(a)) X(12, v8f_relu(a)) X(13, v8f_clip(a, 0.0f, 6.0f)) X(14, v8f_clip(a, -1.0f, 0.0f))          \
    X(15, v8f_abs(a)) X(16, v8f_neg(a)) X(17, 1.0f / a) X(18, v8f_from_v8i(v8i_from_v8f(a)))                       \
    X(19, v8f_from_v8l(v8l_from_v8f(a))) X(20, v8f_pow(a, b)) X(21, v8f_max(a, b)) X(22, v8f_min(a, b))            \
    X(23, v8f_copysign(a, b)) X(24, v8f_fma(a, b, a)) X(25, v8f_expm1(a)) X(26, v8f_log1p(a)) X(27, v8f_tan(a))    \
    X(28, v8f_asin(a)) X(29, v8f_acos(a)) X(30, v8f_atan(a)) X(31, v8f_sinh(a)) X(32, v8f_cosh(a))                  \
    X(33, v8f_asinh(a)) X(34, v8f_acosh(a)) X(35, v8f_atanh(a)) X(36, v8f_fmod(a, b)) X(37, v8f_gelu(a))    \
    X(38, v8f_silu(a))
#define DEFINE_BODY(I, F)                                                                                         \
    MCP26_INLINE void body_##I(const void *const *args, int64_t i, int64_t lanes) {                               \
        v8f a = v8f_load(ARG(float, 0) + i, lanes), b = v8f_load(ARG(float, 1) + i, lanes);                       \
        (void)b;                                                                                                  \
        v8f_store(OUT(float, 2) + i, F, lanes);                                                                   \
    }
EACH_FUNCTION(DEFINE_BODY)

MCP26_INLINE void run_function(const int64_t *n, void **p) {
    const void *args[] = {p[0], p[1], p[2]};
#define CALL_BODY(I, F) \
    if (n[0] == I) RUN_UNITS(map_units(n[1]), n[2], map(n[1], body_##I, args, begin, end))
    EACH_FUNCTION(CALL_BODY)
}

#define EACH_DOUBLE(X)                                                                                            \
    X(0, v8d_exp(a)) X(1, v8d_log(a)) X(2, v8d_tanh(a)) X(3, v8d_sigmoid(a)) X(4, v8d_erf(a)) X(5, v8d_sin(a))     \
    X(6, v8d_cos(a)) X(7, v8d_tan(a)) X(8, v8d_asin(a)) X(9, v8d_acos(a)) X(10, v8d_atan(a)) X(11, v8d_sinh(a))    \
    X(12, v8d_cosh(a)) X(13, v8d_asinh(a)) X(14, v8d_acosh(a)) X(15, v8d_atanh(a)) X(16, v8d_expm1(a))             \
    X(17, v8d_log1p(a)) X(18, v8d_pow(a, b)) X(19, v8d_fmod(a, b)) X(20, v8d_gelu(a))
#define DEFINE_DOUBLE(I, F)                                                                                       \
    MCP26_INLINE void double_##I(const void *const *args, int64_t i, int64_t lanes) {                             \
        v8d a = v8d_load(ARG(double, 0) + i, lanes), b = v8d_load(ARG(double, 1) + i, lanes);                     \
        (void)b;                                                                                                  \
        v8d_store(OUT(double, 2) + i, F, lanes);                                                                  \
    }
EACH_DOUBLE(DEFINE_DOUBLE)

MCP26_INLINE void run_double(const int64_t *n, void **p) {
    const void *args[] = {p[0], p[1], p[2]};
#define CALL_DOUBLE(I, F) \
    if (n[0] == I) RUN_UNITS(map_units(n[1]), n[2], map(n[1], double_##I, args, begin, end))
    EACH_DOUBLE(CALL_DOUBLE)
}

/* Integer lanes: y = max(a, b) * 3 - (a > b), through each vector type's memory functions. */
#define INTEGER_BODY(V, T, M)                                                                                     \
    MCP26_INLINE void body_##V(const void *const *args, int64_t i, int64_t lanes) {                               \
        V a = V##_load(ARG(T, 0) + i, lanes), b = V##_load(ARG(T, 1) + i, lanes);                                 \
        V more = __builtin_convertvector(a > b, V);                                                               \
        V##_store(OUT(T, 2) + i, __builtin_elementwise_max(a, b) * (V)(T)3 + more, lanes);                        \
    }
INTEGER_BODY(v8i, int32_t, v8i)
INTEGER_BODY(v8u, uint32_t, v8i)
INTEGER_BODY(v8l, int64_t, v8l)
INTEGER_BODY(v8b, uint8_t, v8c)
INTEGER_BODY(v8c, int8_t, v8c)
INTEGER_BODY(v8q, uint64_t, v8l)
INTEGER_BODY(v8s, int16_t, v8s)
INTEGER_BODY(v8w, uint16_t, v8s)

MCP26_INLINE void run_integer(const int64_t *n, void **p) {
    const void *args[] = {p[0], p[1], p[2]};
#define CALL_INTEGER(I, V) \
    if (n[0] == I) RUN_UNITS(map_units(n[1]), n[2], map(n[1], body_##V, args, begin, end))
    CALL_INTEGER(0, v8i) CALL_INTEGER(1, v8u) CALL_INTEGER(2, v8l) CALL_INTEGER(3, v8b) CALL_INTEGER(4, v8c)
    CALL_INTEGER(5, v8q) CALL_INTEGER(6, v8s) CALL_INTEGER(7, v8w)
}

/* y = a - b * c with c strided by 3 inside, b constant inside. */
MCP26_INLINE void broadcast_body(const void *const *args, const int64_t *at, int64_t i, int64_t lanes) {
    v8f a = v8f_load(ARG(float, 0) + at[0] + i, lanes), b = ARG(float, 1)[at[1]];
    v8f c = v8f_load_strided(ARG(float, 2) + at[2] + 3 * i, 3, lanes);
    v8f_store(OUT(float, 3) + at[3] + i, a - b * c, lanes);
}

/* n: chunk, inner size, outer rank, sizes[outer], strides[4][outer]. */
MCP26_INLINE void run_map_nd(const int64_t *n, void **p) {
    const void *args[] = {p[0], p[1], p[2], p[3]};
    RUN_UNITS(map_nd_units(n[2], n + 3), n[0],
              map_nd(n[2], n + 3, n[1], 4, n + 3 + n[2], broadcast_body, args, begin, end))
}

MCP26_INLINE void run_reduce(const int64_t *n, void **p) {
#define CALL_REDUCE_OF(F, K) RUN_UNITS(reduce_units(n[2], n[4]), n[5], F(K, n[2], n[3], n[4], p[0], p[1], begin, end))
#define CALL_REDUCE(K)                                         \
    if (n[1] == K) {                                           \
        if (n[0] == 0) CALL_REDUCE_OF(reduce_f32, K)           \
        if (n[0] == 1) CALL_REDUCE_OF(reduce_i32, K)           \
        if (n[0] == 2) CALL_REDUCE_OF(reduce_i64, K)           \
    }
    CALL_REDUCE(REDUCE_SUM) CALL_REDUCE(REDUCE_MEAN) CALL_REDUCE(REDUCE_MAX) CALL_REDUCE(REDUCE_MIN)
    CALL_REDUCE(REDUCE_PROD) CALL_REDUCE(REDUCE_SUM_SQUARE) CALL_REDUCE(REDUCE_L1) CALL_REDUCE(REDUCE_L2)
    CALL_REDUCE(REDUCE_LOG_SUM)
}

MCP26_INLINE void run_softmax(const int64_t *n, void **p) {
    RUN_UNITS(softmax_units(n[1], n[3]), n[4],
              softmax_f32(n[0] ? SOFTMAX_LOG : SOFTMAX, n[1], n[2], n[3], p[0], p[1], begin, end))
}

/* n: time, batch, hidden, reverse, coupled, clip in thousandths, has (1 peephole, 2 lengths, 4 h0 and c0). */
MCP26_INLINE void run_lstm(const int64_t *n, void **p) {
    recurrent_shape_f32 s = {.time = n[0], .batch = n[1], .hidden = n[2], .is_reverse = n[3], .is_coupled = n[4],
                             .clip = (float)n[5] / 1000.0f, .f = v8f_sigmoid, .g = v8f_tanh, .h = v8f_tanh,
                             .gate_time = n[1] * 4 * n[2], .gate_batch = 4 * n[2], .y_time = n[1] * n[2],
                             .y_batch = n[2], .first_batch = n[2], .h_batch = n[2], .c_batch = n[2]};
    recurrent_operands_f32 from = {p[0], p[1], n[6] & 2 ? p[3] : NULL, n[6] & 4 ? p[4] : NULL, n[6] & 4 ? p[5] : NULL};
    lstm_f32(s, from, n[6] & 1 ? p[2] : NULL, p[6], p[7], p[8], p[9]);
}

/* n: chunk, bits, rank, offset of dst, of src, sizes[rank], strides of dst[rank], of src[rank]. */
MCP26_INLINE void run_copy(const int64_t *n, void **p) {
#define CALL_COPY(BITS, T)                                                                                        \
    if (n[1] == BITS)                                                                                             \
        RUN_UNITS(n[5], n[0], copy_nd_##BITS(n[2], n + 5, (T *)p[1] + n[3], n + 5 + n[2], (const T *)p[0] + n[4],   \
                                             n + 5 + 2 * n[2], begin, end))
    CALL_COPY(8, uint8_t) CALL_COPY(16, uint16_t) CALL_COPY(32, uint32_t) CALL_COPY(64, uint64_t)
}

/* n: chunk, bits, mode, value, rank, sizes[rank], before[rank], result's sizes[rank]. */
MCP26_INLINE void run_pad(const int64_t *n, void **p) {
#define CALL_PAD(BITS, T)                                                                                         \
    if (n[1] == BITS)                                                                                             \
        RUN_UNITS(n[5 + 2 * n[4]], n[0], pad_nd_##BITS((pad_mode)n[2], n[4], n + 5, n + 5 + n[4], n + 5 + 2 * n[4],    \
                                                       p[0], p[1], (T)n[3], begin, end))
    CALL_PAD(8, uint8_t) CALL_PAD(32, uint32_t)
}

/* n: chunk, bits, outer, n, inner, count, 64-bit indices. Results: data, int64 status, step, kind, index, bound. */
MCP26_INLINE void run_gather(const int64_t *n, void **p) {
    mcp26_env env = {.fault = {0, 0, 0, 0}};
    int64_t *fault = p[3];
#define CALL_GATHER(BITS)                                                                                         \
    if (n[1] == BITS)                                                                                             \
        RUN_UNITS(n[2] * n[5], n[0],                                                                              \
                  if (!*fault) *fault = gather_##BITS(&env, 7, n[3], n[4], p[0], n[5], p[1], n[6], p[2], begin, end))
    CALL_GATHER(8) CALL_GATHER(16) CALL_GATHER(32) CALL_GATHER(64)
    fault[1] = env.fault.step, fault[2] = env.fault.kind, fault[3] = env.fault.index, fault[4] = env.fault.bound;
}

MCP26_INLINE v8f scaled_and_masked(v8f acc, const void *const *where, int64_t m, int64_t n, int64_t lanes) {
    const attention_place *at = (const void *)where;
    const void *const *args = at->args;
    return acc * at->scale + v8f_load(ARG(float, 0) + attention_at(at, 0, m, n), lanes);
}

/* n: batch, heads, group, rows, depth, width, old keys, new keys, before, after, offset, guarded, keys transposed, chunk.
 * p: queries, old keys and values, new ones, mask [rows][keys], result, scratch. */
MCP26_INLINE void run_attention(const int64_t *n, void **p) {
    mcp26_env env = {.fault = {0, 0, 0, 0}};
    const void *args[] = {p[5]};
    const attention_steps mask[] = {{0, 0, n[6] + n[7], 1}};
    attention a = {.batch = n[0], .heads = n[1], .group = n[2], .rows = n[3], .depth = n[4], .width = n[5],
                   .q = p[0], .q_step = {n[1] * n[3] * n[4], n[3] * n[4], n[4], 1},
                   .y = p[6], .y_step = {n[3] * n[1] * n[5], n[5], n[1] * n[5], 1},
                   .before = n[8], .after = n[9], .offset = n[10], .limit = ATTENTION_ALL, .is_guarded = n[11],
                   .scale = 0.25f};
    for (int64_t i = 0; i < 2; i++) {
        int64_t count = n[6 + i], heads = n[1] / n[2], k = count * n[4], v = count * n[5];
        a.keys[i] = (attention_keys){.k = p[1 + 2 * i], .v = p[2 + 2 * i], .count = count,
                                     .k_step = {heads * k, k, n[12] ? 1 : n[4], n[12] ? count : 1},
                                     .v_step = {heads * v, v, n[5], 1}};
    }
    RUN_UNITS(attention_units(n[0], n[1], n[2], n[3]), n[13],
              attention_f32(&env, a, scaled_and_masked, args, mask, p[7], begin, end))
}

/* n: outer, inner, M, N, K, B transposed, chunk. Rows of all tensors are [outer][row][inner]. */
MCP26_INLINE void run_matmul_strided(const int64_t *n, void **p) {
    int64_t inner = n[1], M = n[2], N = n[3], K = n[4];
    matmul_steps as = {M * inner * K, K, inner * K, 1}, cs = {M * inner * N, N, inner * N, 1};
    matmul_steps bs = {K * inner * N, N, inner * N, 1};
    if (n[5]) bs = (matmul_steps){N * inner * K, K, 1, inner * K};
    RUN_UNITS(matmul_strided_units(n[0], inner, M, N), n[6],
              matmul_strided_f32(n[0], inner, M, N, K, p[0], as, p[1], bs, p[2], cs, epilogue_none, NULL, p[3], begin,
                                 end))
}

/* n: without mean, rows, length, bias, chunk. Results: data, means, factors. */
MCP26_INLINE void run_normalize(const int64_t *n, void **p) {
    normalize_operand scale = {p[1], 0, 1}, bias = {n[3] ? p[2] : NULL, 0, 1};
    RUN_UNITS(n[1], n[4],
              normalize_f32(n[0] ? NORMALIZE_MEAN_SQUARE : NORMALIZE_MEAN_AND_VARIANCE, n[2], p[0], scale, bias, 1e-5f,
                            p[3], p[4], p[5], epilogue_none, NULL, begin, end))
}

#define EACH_KERNEL(X)                                                                                            \
    X(0, gemm) X(1, matmul) X(2, conv) X(3, conv_few) X(4, depthwise) X(5, pool) X(6, pool_global) X(7, function) \
    X(8, integer) X(9, map_nd) X(10, reduce) X(11, softmax) X(12, lstm) X(13, copy) X(14, pad) X(15, gather) \
    X(16, window) X(17, resize) X(18, double) X(19, gemm_i8) \
    X(20, attention) X(21, matmul_strided) X(22, normalize) \
    X(23, gemm_weights) X(24, matmul_i8) X(25, separable) X(26, winograd) \
    X(27, winograd_line) X(28, depthwise_i8) X(29, winograd_i8) X(30, gemm_words)

#define DEFINE_KERNEL(I, NAME) \
    static __attribute__((noinline)) void kernel_##NAME(const int64_t *n, void **p) { run_##NAME(n, p); }
EACH_KERNEL(DEFINE_KERNEL)

#define CASE(I, NAME, ...)                                            \
    static __attribute__((noinline)) void static_##I(void **p) {      \
        const int64_t n[NUMBERS] = {__VA_ARGS__};                     \
        run_##NAME(n, p);                                             \
    }
#include "cases.inc"
#undef CASE

static void run(int64_t kernel, const int64_t *n, void **p) {
#define CALL_KERNEL(I, NAME) \
    if (kernel == I) kernel_##NAME(n, p);
    EACH_KERNEL(CALL_KERNEL)
#define CASE(I, NAME, ...) \
    if (kernel == STATIC + I) static_##I(p);
#include "cases.inc"
#undef CASE
}

__attribute__((used)) void program(void);

void program(void) {
    int64_t head[NUMBERS + 2];
    while (read_all(head, sizeof head)) {
        void *buffer[BUFFERS];
        int64_t size[BUFFERS], mapped[BUFFERS], base[BUFFERS], is_result[BUFFERS], count = head[NUMBERS + 1];
        for (int64_t i = 0; i < count; i++) {
            int64_t about[2], pad;
            if (!read_all(about, sizeof about)) leave(4);
            size[i] = about[0], is_result[i] = about[1];
            mapped[i] = (size[i] + PAGE - 1) / PAGE * PAGE + PAGE;
            base[i] = system_call(SYS_MMAP, 0, mapped[i], 3, 0x22, -1, 0);
            if (base[i] < 0 && base[i] > -PAGE) leave(5);
            system_call(SYS_MPROTECT, base[i] + mapped[i] - PAGE, PAGE, 0, 0, 0, 0);
            buffer[i] = (void *)(base[i] + mapped[i] - PAGE - size[i]);
            if (!read_all(buffer[i], size[i]) || (size[i] % 8 && !read_all(&pad, 8 - size[i] % 8))) leave(4);
        }
        run(head[0], head + 1, buffer);
        for (int64_t i = 0; i < count; i++) {
            if (is_result[i]) write_all(buffer[i], size[i]);
            system_call(SYS_MUNMAP, base[i], mapped[i], 0, 0, 0, 0);
        }
    }
    leave(0);
}
