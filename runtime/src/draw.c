#include "draw.h"

#include "mcp26.h"
#include "tensor.h"

#include <string.h>

uint64_t mcp26_draw_word(uint64_t seed, uint64_t i) {
    uint64_t word = seed + (i + 1) * 0x9e3779b97f4a7c15;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
    word = (word ^ word >> 27) * 0x94d049bb133111eb;
    return word ^ word >> 31;
}

int mcp26_draw_has(uint32_t dtype) { return dtype <= MCP26_BFLOAT16 && mcp26_dtype_bits(dtype) != 0; }

/* IEEE binary16, rounded to nearest even; for less than its largest number. */
static uint16_t to_half(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x38800000) { /* a normal number: 2^-14 and more */
        magnitude += 0xfff + (magnitude >> 13 & 1);
        return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
    }
    float value;
    memcpy(&value, &magnitude, sizeof value);
    value += 0.5F; /* whose last place, 2^-24, is the step of subnormal halves */
    memcpy(&magnitude, &value, sizeof value);
    return (uint16_t)(sign | (magnitude - 0x3f000000));
}

static void draw_float(uint8_t *to, uint32_t dtype, float value) {
    double wide = (double)value;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (dtype == MCP26_FLOAT64) memcpy(to, &wide, sizeof wide);
    else if (dtype == MCP26_FLOAT32) memcpy(to, &value, sizeof value);
    else {
        uint16_t half = dtype == MCP26_FLOAT16 ? to_half(bits) : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy(to, &half, sizeof half);
    }
}

void mcp26_draw(uint8_t *data, uint32_t dtype, uint64_t elements, uint64_t seed, float scale, uint32_t range) {
    const uint32_t bytes = mcp26_dtype_alignment(dtype);
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t word = mcp26_draw_word(seed, i);
        if (mcp26_dtype_is_float(dtype)) {
            int32_t sum = (int32_t)((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48));
            draw_float(data + i * bytes, dtype, (float)(sum - 131070) * scale);
        } else {
            word %= range;
            memcpy(data + i * bytes, &word, bytes);
        }
    }
}
