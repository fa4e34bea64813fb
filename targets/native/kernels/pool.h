/* pool.h: pooling over NHWC activations (see conv.h for the layout and conv_shape). in_c = out_c = channels; sizes
 * come from the caller (floor or ceil mode alike). The epilogue is called as in conv.h. Padding never wins a maximum;
 * NaN does. Units: output rows; of the global pools: groups of GLOBAL_CHANNELS channels.
 */
#ifndef MCP26_POOL_H
#define MCP26_POOL_H

#include "conv.h"

enum { GLOBAL_CHANNELS = 32 };

typedef enum { POOL_MAX, POOL_AVERAGE, POOL_AVERAGE_WITH_PADDING } pool_kind;

MCP26_INLINE int64_t pool_f32_units(conv_shape s) { return s.batch * s.out_h; }

/* POOL_AVERAGE divides by the elements inside the image, POOL_AVERAGE_WITH_PADDING (count_include_pad) by those
 * inside the padded image, whose lower and right margins are pad_bottom and pad_right. */
MCP26_INLINE void pool_f32(pool_kind kind, conv_shape s, int64_t pad_bottom, int64_t pad_right, const float *x,
                           float *y, mcp26_epilogue epilogue, const void *const *args, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / s.out_h, top = u % s.out_h * s.stride_h - s.pad_top;
        for (int64_t column = 0; column < s.out_w; column++) {
            int64_t side = column * s.stride_w - s.pad_left, count = 0, m = u * s.out_w + column;
            for (int64_t kh = 0; kh < s.kernel_h; kh++) {
                for (int64_t kw = 0; kw < s.kernel_w; kw++) {
                    int64_t line = top + kh * s.dilation_h, at = side + kw * s.dilation_w;
                    count += kind == POOL_AVERAGE_WITH_PADDING
                                 ? line < s.in_h + pad_bottom && at < s.in_w + pad_right
                                 : line >= 0 && line < s.in_h && at >= 0 && at < s.in_w;
                }
            }
            for (int64_t n = 0; n < s.out_c; n += 8) {
                int64_t lanes = mcp26_min(8, s.out_c - n);
                v8f acc = kind == POOL_MAX ? -__builtin_inff() : 0.0f;
                for (int64_t kh = 0; kh < s.kernel_h; kh++) {
                    int64_t line = top + kh * s.dilation_h;
                    if (line < 0 || line >= s.in_h) continue;
                    for (int64_t kw = 0; kw < s.kernel_w; kw++) {
                        int64_t at = side + kw * s.dilation_w;
                        if (at < 0 || at >= s.in_w) continue;
                        v8f v = v8f_load(x + ((item * s.in_h + line) * s.in_w + at) * s.x_pixel + n, lanes);
                        acc = kind == POOL_MAX ? v8f_max(acc, v) : acc + v;
                    }
                }
                if (kind != POOL_MAX) acc /= (float)mcp26_max(count, 1);
                v8f_store(y + m * s.y_pixel + n, epilogue(acc, args, m, n, lanes), lanes);
            }
        }
    }
}

MCP26_INLINE int64_t pool_global_f32_units(int64_t batch, int64_t channels) {
    return batch * mcp26_ceil_div(channels, GLOBAL_CHANNELS);
}

/* y[batch][channels] (rows `channels` apart) from x[batch][pixels][channels]; the epilogue's m is the item. */
MCP26_INLINE void pool_global_f32(pool_kind kind, int64_t batch, int64_t pixels, int64_t channels, const float *x,
                                  int64_t x_pixel, float *y, mcp26_epilogue epilogue, const void *const *args,
                                  int64_t begin, int64_t end) {
    int64_t groups = mcp26_ceil_div(channels, GLOBAL_CHANNELS);
    (void)batch;
    for (int64_t u = begin; u < end; u++) {
        int64_t item = u / groups, n = u % groups * GLOBAL_CHANNELS, some = mcp26_min(GLOBAL_CHANNELS, channels - n);
        const float *from = x + item * pixels * x_pixel + n;
        v8f acc[GLOBAL_CHANNELS / 8];
        MCP26_UNROLL for (int j = 0; j < GLOBAL_CHANNELS / 8; j++) acc[j] = kind == POOL_MAX ? -__builtin_inff() : 0.0f;
        for (int64_t p = 0; p < pixels; p++) {
            MCP26_UNROLL for (int j = 0; j < GLOBAL_CHANNELS / 8; j++) {
                if (8 * j >= some) continue;
                v8f v = v8f_load(from + p * x_pixel + 8 * j, mcp26_min(8, some - 8 * j));
                acc[j] = kind == POOL_MAX ? v8f_max(acc[j], v) : acc[j] + v;
            }
        }
        MCP26_UNROLL for (int j = 0; j < GLOBAL_CHANNELS / 8; j++) {
            int64_t lanes = mcp26_min(8, some - 8 * j);
            if (lanes <= 0) continue;
            if (kind != POOL_MAX) acc[j] /= (float)pixels;
            v8f_store(y + item * channels + n + 8 * j, epilogue(acc[j], args, item, n + 8 * j, lanes), lanes);
        }
    }
}

#endif
