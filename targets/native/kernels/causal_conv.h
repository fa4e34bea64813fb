/* causal_conv.h: CausalConvWithState, a depthwise convolution over the time steps so far. All tensors are contiguous.
 *
 * Each result is one chain of fused multiply-adds from the bias over the taps in order, however it is vectorised: over
 * time, or where that is short (a token in decoding) over channels.
 */
#ifndef MCP26_CAUSAL_CONV_H
#define MCP26_CAUSAL_CONV_H

#include "vmath.h"

/* x and y [batch][channels][time], w [channels][taps], bias [channels], past and present [batch][channels][taps - 1].
 * What is 0 is not there, a past holds zeros then. Step i of `past, x` has x's step 0 at i = taps - 1. */
typedef struct {
    int64_t channels, time, taps;
    const float *x, *w, *bias, *past;
    int64_t is_silu;
    float *y, *present;
} causal_conv;

MCP26_INLINE int64_t causal_conv_groups(int64_t channels) { return mcp26_ceil_div(channels, 8); }

MCP26_INLINE v8f causal_conv_finish(causal_conv a, v8f acc) { return a.is_silu ? acc * v8f_sigmoid(acc) : acc; }

/* Step i of a row, a channel of an item. */
MCP26_INLINE float causal_conv_step(causal_conv a, int64_t row, int64_t i) {
    int64_t old = a.taps - 1;
    if (i >= old) return a.x[row * a.time + i - old];
    return a.past ? a.past[row * old + i] : 0.0f;
}

/* All of a row. */
MCP26_INLINE void causal_conv_row(causal_conv a, int64_t row, int64_t channel) {
    const float *x = a.x + row * a.time, *w = a.w + channel * a.taps;
    v8f bias = a.bias ? a.bias[channel] : 0.0f;
    for (int64_t t = 0; t < a.time; t += 8) {
        int64_t lanes = mcp26_min(8, a.time - t), is_near = t < a.taps - 1;
        v8f acc = bias;
        for (int64_t j = 0; j < a.taps; j++) {
            v8f v = 0.0f;
            if (is_near) {
                for (int64_t i = 0; i < lanes; i++) v[i] = causal_conv_step(a, row, t + i + j);
            } else {
                v = v8f_load(x + t + j - (a.taps - 1), lanes);
            }
            acc = v8f_fma(v, v8f_splat(w[j]), acc);
        }
        v8f_store(a.y + row * a.time + t, causal_conv_finish(a, acc), lanes);
    }
}

/* Rows of neighbouring channels, `lanes` of them. */
MCP26_INLINE void causal_conv_token(causal_conv a, int64_t row, int64_t channel, int64_t lanes) {
    int64_t old = a.taps - 1;
    for (int64_t t = 0; t < a.time; t++) {
        v8f acc = a.bias ? v8f_load(a.bias + channel, lanes) : 0.0f;
        for (int64_t j = 0; j < a.taps; j++) {
            int64_t i = t + j;
            v8f v = 0.0f;
            if (i >= old) {
                v = v8f_load_strided(a.x + row * a.time + i - old, a.time, lanes);
            } else if (a.past) {
                v = v8f_load_strided(a.past + row * old + i, old, lanes);
            }
            acc = v8f_fma(v, v8f_load_strided(a.w + channel * a.taps + j, a.taps, lanes), acc);
        }
        v8f_store_strided(a.y + row * a.time + t, a.time, causal_conv_finish(a, acc), lanes);
    }
}

/* Units: batch * causal_conv_groups(channels). */
MCP26_INLINE void causal_conv_f32(causal_conv a, int64_t begin, int64_t end) {
    int64_t groups = causal_conv_groups(a.channels), old = a.taps - 1;
    for (int64_t u = begin; u < end; u++) {
        int64_t channel = u % groups * 8, lanes = mcp26_min(8, a.channels - channel);
        int64_t row = u / groups * a.channels + channel;
        if (a.time < 8) {
            causal_conv_token(a, row, channel, lanes);
        } else {
            for (int64_t c = 0; c < lanes; c++) causal_conv_row(a, row + c, channel + c);
        }
        for (int64_t c = 0; a.present && c < lanes; c++) {
            for (int64_t i = 0; i < old; i++) {
                a.present[(row + c) * old + i] = causal_conv_step(a, row + c, a.time + i);
            }
        }
    }
}

#endif
