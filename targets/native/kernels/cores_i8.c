/* cores_i8.c: the cores of gemm_i8.h, compiled once a processor as those of cores.c are. */
#include "gemm_i8.h"

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

/* The largest number of vectors across a tile. */
enum { BYTE_VECTORS = 2 };

#if defined(__AVX512F__)
typedef int32_t byte_sums __attribute__((ext_vector_type(16)));
typedef int32_t plain_sums __attribute__((vector_size(64)));
typedef int16_t byte_words __attribute__((ext_vector_type(32)));
typedef int16_t plain_words __attribute__((vector_size(64)));
typedef int8_t byte_half __attribute__((ext_vector_type(32)));
typedef int8_t plain_bytes __attribute__((vector_size(64)));
enum { VECTOR_SUMS = 16 };
#else
typedef v8i byte_sums;
typedef int32_t plain_sums __attribute__((vector_size(32)));
typedef int16_t byte_words __attribute__((ext_vector_type(16)));
typedef int16_t plain_words __attribute__((vector_size(32)));
typedef int8_t byte_half __attribute__((ext_vector_type(16)));
enum { VECTOR_SUMS = 8 };
#endif
enum { VECTORS = BYTE_WIDTH * BYTE_PARTS / VECTOR_SUMS };

#define BYTE_READ(type, p)                        \
    ({                                            \
        type value_;                              \
        __builtin_memcpy(&value_, p, sizeof value_); \
        value_;                                   \
    })

/* BYTE_ROW: four bytes, or words, of a row for all columns. BYTE_LOAD: vector j of the weights that meet them. */
#if defined(__AVX512VNNI__)
typedef byte_sums byte_row, byte_weights;
#define BYTE_ROW(at) ((byte_sums)BYTE_READ(int32_t, at))
#define BYTE_LOAD(j) \
    (BYTE_READ(byte_sums, b + (j) * panel_stride + g * 4 * MCP26_NR) ^ (int32_t)(MCP26_WEIGHT_BIAS * 0x01010101u))
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_weights w) {
    return (byte_sums)__builtin_ia32_vpdpbusd512((plain_sums)sums, (plain_bytes)row, (plain_bytes)w);
}
#elif defined(__AVX2__)
typedef byte_words byte_row, byte_weights;
typedef int64_t byte_quads __attribute__((ext_vector_type(VECTOR_SUMS / 2)));
#define BYTE_ROW(at) ((byte_words)(byte_quads)BYTE_READ(int64_t, at))
#define BYTE_LOAD(j) \
    __builtin_convertvector(                                                                                  \
        BYTE_READ(byte_half, b + (g * MCP26_NR + column) * 4 + (j) * 2 * VECTOR_SUMS) ^ BYTE_BIAS, byte_words)
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_weights w) {
#if defined(__AVX512BW__)
    return (byte_sums)((plain_sums)sums + (plain_sums)__builtin_ia32_pmaddwd512((plain_words)row, (plain_words)w));
#else
    return (byte_sums)((plain_sums)sums + (plain_sums)__builtin_ia32_pmaddwd256((plain_words)row, (plain_words)w));
#endif
}
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int32_t byte_row;
typedef struct {
    int8x16_t low, high;
} byte_weights;
#define BYTE_ROW(at) BYTE_READ(int32_t, at)
#define BYTE_LOAD(j)                                                                    \
    (byte_weights) {                                                                    \
        vld1q_s8(b + g * 4 * MCP26_NR) ^ BYTE_BIAS, vld1q_s8(b + g * 4 * MCP26_NR + 16) ^ BYTE_BIAS \
    }
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_weights w) {
    int8x16_t left = vreinterpretq_s8_s32(vdupq_n_s32(row));
    int32x4_t low, high;
    __builtin_memcpy(&low, &sums, 16), __builtin_memcpy(&high, (char *)&sums + 16, 16);
    low = vdotq_s32(low, w.low, left), high = vdotq_s32(high, w.high, left);
    __builtin_memcpy(&sums, &low, 16), __builtin_memcpy((char *)&sums + 16, &high, 16);
    return sums;
}
#else
typedef const int16_t *byte_row;
typedef struct {
    v8s of[4];
} byte_weights;
typedef int8_t byte_panel __attribute__((ext_vector_type(32)));
#define BYTE_ROW(at) (at)
#define BYTE_COLUMN(w, k)                                                                                           \
    __builtin_convertvector(__builtin_shufflevector(w, w, k, k + 4, k + 8, k + 12, k + 16, k + 20, k + 24, k + 28), v8s)
MCP26_INLINE byte_weights byte_spread(const int8_t *p) {
    byte_panel w;
    __builtin_memcpy(&w, p, sizeof w);
    w ^= BYTE_BIAS;
    return (byte_weights){{BYTE_COLUMN(w, 0), BYTE_COLUMN(w, 1), BYTE_COLUMN(w, 2), BYTE_COLUMN(w, 3)}};
}
#define BYTE_LOAD(j) byte_spread(b + (g * MCP26_NR + column) * 4)
MCP26_INLINE byte_sums byte_dot(byte_sums sums, byte_row row, byte_weights w) {
    MCP26_UNROLL for (int64_t k = 0; k < 4; k++) {
        v8s left = row[k];
        sums += __builtin_convertvector(left, v8i) * __builtin_convertvector(w.of[k], v8i);
    }
    return sums;
}
#endif

MCP26_INLINE void byte_core(int64_t rows, int32_t *sums, const byte_left *left, int64_t groups, const int8_t *b,
                            int64_t panel_stride, int64_t column) {
    byte_sums acc[BYTE_TALL * BYTE_VECTORS];
    (void)panel_stride, (void)column;
    MCP26_UNROLL for (int64_t i = 0; i < rows * VECTORS; i++) acc[i] = 0;
    MCP26_ROLL for (int64_t g = 0; g < groups; g++, left += 4 * BYTE_TALL) {
        byte_weights w[BYTE_VECTORS];
        MCP26_UNROLL for (int64_t j = 0; j < VECTORS; j++) w[j] = BYTE_LOAD(j);
        MCP26_UNROLL for (int64_t i = 0; i < rows; i++) {
            byte_row row = BYTE_ROW(left + 4 * i);
            MCP26_UNROLL for (int64_t j = 0; j < VECTORS; j++) {
                acc[i * VECTORS + j] = byte_dot(acc[i * VECTORS + j], row, w[j]);
            }
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < rows * VECTORS; i++) {
        __builtin_memcpy(sums + i * VECTOR_SUMS, &acc[i], sizeof acc[i]);
    }
}

#define BYTE_HEIGHTS(X) X(1) X(2) X(4) X(6) X(8) X(12)
#define BYTE_DEFINE(R)                                                                                              \
    static __attribute__((noinline)) void bytes_##R(int32_t *sums, const byte_left *left, int64_t groups,           \
                                                    const int8_t *b, int64_t panel_stride, int64_t column) {        \
        byte_core(R, sums, left, groups, b, panel_stride, column);                                                  \
    }
#define BYTE_CALL(R)                                                                              \
    if (R <= BYTE_TALL && rows <= R) {                                                            \
        bytes_##R(sums, left, groups, b, panel_stride, column);                                   \
        return;                                                                                   \
    }
BYTE_HEIGHTS(BYTE_DEFINE)
void mcp26_bytes(int64_t rows, int32_t *sums, const byte_left *left, int64_t groups, const int8_t *b,
                 int64_t panel_stride, int64_t column) {
    BYTE_HEIGHTS(BYTE_CALL)
}
