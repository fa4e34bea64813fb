/* channels.h: normalisations per channel. An image is [items][pixels][channels] unless it says otherwise.
 *
 * Means and variances are summed in double, in the order of the pixels, lane i of a vector apart from the others.
 */
#ifndef MCP26_CHANNELS_H
#define MCP26_CHANNELS_H

#include "vmath.h"

enum { CHANNELS_WIDTH = 16 }; /* channels of a unit: a line of the cache */

/* y = (x - mean) * scale / sqrt(variance + epsilon) + bias, all four per channel; x is [outer][channels][inner]. Units:
 * outer * channels, or outer where inner is 1. */
MCP26_INLINE v8f channels_factor(v8f scale, v8f variance, float epsilon) { return scale / v8f_sqrt(variance + epsilon); }

MCP26_INLINE int64_t batch_norm_units(int64_t outer, int64_t channels, int64_t inner) {
    return inner == 1 ? outer : outer * channels;
}

MCP26_INLINE void batch_norm_f32(int64_t channels, int64_t inner, float epsilon, const float *x, const float *scale,
                                 const float *bias, const float *mean, const float *variance, float *y, int64_t begin,
                                 int64_t end) {
    int64_t n = inner == 1 ? channels : inner;
    for (int64_t u = begin; u < end; u++) {
        int64_t c = inner == 1 ? 0 : u % channels;
        for (int64_t i = 0; i < n; i += 8) {
            int64_t lanes = mcp26_min(8, n - i), p = inner == 1 ? i : c;
#define CHANNELS_PARAMETER(from) (inner == 1 ? v8f_load((from) + p, lanes) : v8f_splat((from)[p]))
            v8f factor = channels_factor(CHANNELS_PARAMETER(scale), CHANNELS_PARAMETER(variance), epsilon);
            v8f v = v8f_load(x + u * n + i, lanes) - CHANNELS_PARAMETER(mean);
            v8f_store(y + u * n + i, v8f_fma(v, factor, CHANNELS_PARAMETER(bias)), lanes);
#undef CHANNELS_PARAMETER
        }
    }
}

MCP26_INLINE v8d channels_double(v8f v) { return __builtin_convertvector(v, v8d); }
MCP26_INLINE v8f channels_float(v8d v) { return __builtin_convertvector(v, v8f); }
MCP26_INLINE double channels_sum(v8d v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* Units: items x blocks of CHANNELS_WIDTH channels. */
MCP26_INLINE int64_t instance_norm_units(int64_t items, int64_t channels) {
    return items * mcp26_ceil_div(channels, CHANNELS_WIDTH);
}

/* Mean and variance of each channel of each item. */
MCP26_INLINE void instance_norm_f32(int64_t pixels, int64_t channels, float epsilon, const float *x, const float *scale,
                                    const float *bias, float *y, int64_t begin, int64_t end) {
    int64_t blocks = mcp26_ceil_div(channels, CHANNELS_WIDTH);
    for (int64_t u = begin; u < end; u++) {
        int64_t n = u % blocks * CHANNELS_WIDTH, at = u / blocks * pixels * channels + n;
        v8f mean[CHANNELS_WIDTH / 8], factor[CHANNELS_WIDTH / 8];
        int64_t lanes[CHANNELS_WIDTH / 8];
        v8d sum[CHANNELS_WIDTH / 8];
#define CHANNELS_EACH MCP26_UNROLL for (int64_t j = 0; j < CHANNELS_WIDTH / 8; j++) if (lanes[j] > 0)
        for (int64_t j = 0; j < CHANNELS_WIDTH / 8; j++) lanes[j] = mcp26_min(8, channels - n - 8 * j), sum[j] = 0.0;
        for (int64_t i = 0; i < pixels; i++) {
            CHANNELS_EACH sum[j] += channels_double(v8f_load(x + at + i * channels + 8 * j, lanes[j]));
        }
        CHANNELS_EACH mean[j] = channels_float(sum[j] / (double)pixels), sum[j] = 0.0;
        for (int64_t i = 0; i < pixels; i++) {
            CHANNELS_EACH {
                v8d d = channels_double(v8f_load(x + at + i * channels + 8 * j, lanes[j]) - mean[j]);
                sum[j] = v8d_fma(d, d, sum[j]);
            }
        }
        CHANNELS_EACH {
            v8f variance = channels_float(sum[j] / (double)pixels);
            factor[j] = channels_factor(v8f_load(scale + n + 8 * j, lanes[j]), variance, epsilon);
        }
        for (int64_t i = 0; i < pixels; i++) {
            CHANNELS_EACH {
                v8f v = v8f_load(x + at + i * channels + 8 * j, lanes[j]) - mean[j];
                v = v8f_fma(v, factor[j], v8f_load(bias + n + 8 * j, lanes[j]));
                v8f_store(y + at + i * channels + 8 * j, v, lanes[j]);
            }
        }
#undef CHANNELS_EACH
    }
}

/* Mean and variance of each group of channels of each item; units: items * groups. */
MCP26_INLINE void group_norm_f32(int64_t groups, int64_t pixels, int64_t channels, float epsilon, const float *x,
                                 const float *scale, const float *bias, float *y, int64_t begin, int64_t end) {
    int64_t width = channels / groups;
    double count = (double)pixels * (double)width;
    for (int64_t u = begin; u < end; u++) {
        int64_t c = u % groups * width, at = u / groups * pixels * channels + c;
        v8d sum = 0.0;
        for (int64_t i = 0; i < pixels; i++) {
            for (int64_t n = 0; n < width; n += 8) {
                sum += channels_double(v8f_load(x + at + i * channels + n, mcp26_min(8, width - n)));
            }
        }
        v8f mean = (float)(channels_sum(sum) / count);
        sum = 0.0;
        for (int64_t i = 0; i < pixels; i++) {
            for (int64_t n = 0; n < width; n += 8) {
                int64_t lanes = mcp26_min(8, width - n);
                v8f v = v8f_load(x + at + i * channels + n, lanes) - mean;
                v8d d = channels_double(v8f_select(v8i_lane_mask(lanes), v, 0.0f));
                sum = v8d_fma(d, d, sum);
            }
        }
        v8f variance = (float)(channels_sum(sum) / count);
        for (int64_t i = 0; i < pixels; i++) {
            for (int64_t n = 0; n < width; n += 8) {
                int64_t lanes = mcp26_min(8, width - n);
                v8f factor = channels_factor(v8f_load(scale + c + n, lanes), variance, epsilon);
                v8f v = v8f_load(x + at + i * channels + n, lanes) - mean;
                v8f_store(y + at + i * channels + n, v8f_fma(v, factor, v8f_load(bias + c + n, lanes)), lanes);
            }
        }
    }
}

/* Channels n ... n+lanes-1 of a pixel, zero beyond its ends. */
MCP26_INLINE v8f lrn_load(const float *pixel, int64_t channels, int64_t n, int64_t lanes) {
    if (n >= 0 && n + 8 <= channels) return v8f_load_all(pixel + n);
    float part[8] = {0};
    for (int64_t i = mcp26_max(0, -n); i < lanes && n + i < channels; i++) part[i] = pixel[n + i];
    return v8f_load_all(part);
}

/* x^-beta for x >= 0. */
MCP26_INLINE v8f lrn_power(v8f x, float beta) {
    if (beta == 0.75f) return 1.0f / (v8f_sqrt(x) * v8f_sqrt(v8f_sqrt(x)));
    return beta == 0.5f ? 1.0f / v8f_sqrt(x) : beta == 1.0f ? 1.0f / x : v8f_pow(x, v8f_splat(-beta));
}

/* y = x * (bias + scale * the sum of squares of the channels from `before` ahead to `after` behind)^-beta. Units: pixels
 * of all items. */
MCP26_INLINE void lrn_f32(int64_t channels, int64_t before, int64_t after, float scale, float bias, float beta,
                          const float *x, float *y, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        const float *pixel = x + u * channels;
        for (int64_t n = 0; n < channels; n += 8) {
            int64_t lanes = mcp26_min(8, channels - n);
            v8f sum = 0.0f;
            for (int64_t t = -mcp26_min(before, n + 8); t <= mcp26_min(after, channels - n); t++) {
                v8f v = lrn_load(pixel, channels, n + t, lanes);
                sum = v8f_fma(v, v, sum);
            }
            v8f v = v8f_load(pixel + n, lanes) * lrn_power(v8f_fma(sum, scale, bias), beta);
            v8f_store(y + u * channels + n, v, lanes);
        }
    }
}

#endif
