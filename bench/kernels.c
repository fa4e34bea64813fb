/* Speed of the native kernels on the layers of MobileNetV2 and a few others, one thread, in GFLOP/s (a multiply-add
 * counts two).
 *
 *     python -m ziglang cc -O2 -mcpu=x86_64_v4+avx512vnni -std=gnu11 -ffp-contract=off -fno-math-errno \
 *         -fno-sanitize=all -Itargets/native/kernels bench/kernels.c targets/native/kernels/cores*.c -o build/kernels
 *     build/kernels
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conv.h"
#include "conv_few.h"
#include "depthwise.h"
#include "gemm.h"
#include "gemm_i8.h"
#include "recurrent.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

MCP26_INLINE v8f bias_relu6(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)m;
    return v8f_clip(acc + v8f_load(ARG(float, 0) + n, lanes), 0.0f, 6.0f);
}

static float *A, *B, *C, *Z;
static const void *args[1];
static double total;

/* Best of several runs of about 20 ms. */
#define MEASURE(name, flops, call)                                                            \
    do {                                                                                      \
        double best = 1e9, start = now(), stop = start + 0.15;                                \
        while (now() < stop) {                                                                \
            double t0 = now();                                                                \
            call;                                                                             \
            double t1 = now();                                                                \
            if (t1 - t0 < best) best = t1 - t0;                                               \
        }                                                                                     \
        total += best;                                                                        \
        printf("%-36s %9.1f us %7.1f GFLOP/s\n", name, best * 1e6, (flops) / best / 1e9);     \
    } while (0)

#define POINTWISE(M, K, N)                                                                                       \
    static __attribute__((noinline)) void gemm_##M##_##K##_##N(void) {                                           \
        gemm_f32(M, N, K, A, K, B, C, N, bias_relu6, args, 0, gemm_f32_units(M, N, K));                          \
    }
#define RUN_POINTWISE(M, K, N) MEASURE("gemm " #M " x " #K " x " #N, 2.0 * M * K * N, gemm_##M##_##K##_##N());
#define POINTWISES(X)                                                                                            \
    X(12544, 32, 16) X(12544, 16, 96) X(3136, 96, 24) X(3136, 24, 144) X(3136, 144, 24) X(784, 144, 32)          \
    X(784, 32, 192) X(784, 192, 32) X(196, 192, 64) X(196, 64, 384) X(196, 384, 64) X(196, 384, 96)              \
    X(196, 96, 576) X(196, 576, 96) X(49, 576, 160) X(49, 160, 960) X(49, 960, 160) X(49, 960, 320)              \
    X(49, 320, 1280) X(1, 1280, 1000) X(1, 128, 512)
POINTWISES(POINTWISE)

#define SHAPE(H, CH, O, K, S, G)                                                                                  \
    ((conv_shape){.batch = 1, .in_h = H, .in_w = H, .in_c = CH, .x_pixel = CH, .out_h = H / S, .out_w = H / S,   \
                  .out_c = O, .y_pixel = O, .kernel_h = K, .kernel_w = K, .stride_h = S, .stride_w = S,           \
                  .dilation_h = 1, .dilation_w = 1, .pad_top = S == 2 ? K / 2 - 1 : K / 2,            \
                  .pad_left = S == 2 ? K / 2 - 1 : K / 2, .groups = G})
#define DEPTHWISE(H, CH, S)                                                                                       \
    static __attribute__((noinline)) void depthwise_##H##_##CH##_##S(void) {                                      \
        depthwise_f32(SHAPE(H, CH, CH, 3, S, CH), A, B, C, bias_relu6, args, 0, H / S);                           \
    }
#define RUN_DEPTHWISE(H, CH, S)                                                                                   \
    MEASURE("depthwise 3x3 " #H " x " #CH " s" #S, 18.0 * (H / S) * (H / S) * CH, depthwise_##H##_##CH##_##S());
#define DEPTHWISES(X)                                                                                             \
    X(112, 32, 1) X(112, 96, 2) X(56, 144, 1) X(56, 144, 2) X(28, 192, 1) X(28, 192, 2) X(14, 384, 1) X(14, 576, 1) \
    X(14, 576, 2) X(7, 960, 1)
DEPTHWISES(DEPTHWISE)

#define CONV(H, CH, O, K, S)                                                                                      \
    static __attribute__((noinline)) void conv_##H##_##CH##_##O##_##K##_##S(void) {                               \
        conv_f32(SHAPE(H, CH, O, K, S, 1), A, B, Z, C, bias_relu6, args, 0, conv_f32_units(SHAPE(H, CH, O, K, S, 1))); \
    }
#define RUN_CONV(H, CH, O, K, S)                                                                                  \
    MEASURE("conv " #K "x" #K " " #H " x " #CH " > " #O " s" #S, 2.0 * K * K * (H / S) * (H / S) * CH * O,        \
            conv_##H##_##CH##_##O##_##K##_##S());
#define CONVS(X) \
    X(56, 64, 64, 3, 1) X(28, 128, 128, 3, 1) X(14, 256, 256, 3, 1) X(7, 512, 512, 3, 1) X(56, 128, 128, 3, 2)
CONVS(CONV)

static __attribute__((noinline)) void first_layer(void) {
    conv_nchw_in_f32(SHAPE(224, 3, 32, 3, 2, 1), A, B, C, bias_relu6, args, 0, 112);
}

static __attribute__((noinline)) void bytes(void) {
    gemm_i8(400, 384, 1536, (byte_rows){A, 0, 5}, (const int8_t *)B, (const int32_t *)(const void *)Z,
            (int32_t *)(void *)C, C + 400 * 384, 0, gemm_i8_units(400, 384));
}

static __attribute__((noinline)) void lstm(void) {
    recurrent_shape_f32 s = {.time = 1, .batch = 1, .hidden = 128, .f = v8f_sigmoid, .g = v8f_tanh, .h = v8f_tanh,
                             .gate_time = 512, .gate_batch = 512, .y_time = 128, .y_batch = 128, .first_batch = 128,
                             .h_batch = 128, .c_batch = 128};
    lstm_f32(s, (recurrent_operands_f32){A, B, NULL, Z, Z}, NULL, C, C + 128, C + 256, C + 512);
}

int main(void) {
    size_t n = (size_t)4 << 20;
    A = aligned_alloc(64, n * 4), B = aligned_alloc(64, n * 4), C = aligned_alloc(64, n * 4), Z = calloc(8192, 4);
    if (!A || !B || !C || !Z) return 1;
    for (size_t i = 0; i < n; i++) {
        A[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        B[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    }
    args[0] = B + n / 2;
    POINTWISES(RUN_POINTWISE)
    DEPTHWISES(RUN_DEPTHWISE)
    MEASURE("first layer 224 x 3 > 32 s2", 2.0 * 112 * 112 * 27 * 32, first_layer());
    printf("sum %.1f us\n", total * 1e6);
    CONVS(RUN_CONV)
    MEASURE("gemm of bytes 400 x 1536 x 384", 2.0 * 400 * 1536 * 384, bytes());
    MEASURE("lstm step, hidden 128", 2.0 * 128 * 512, lstm());
    return 0;
}
