/* vision.h: operators that sample channels-last images, vectors along channels, and those that make grids.
 *
 * Coordinates come from data: whatever they are (NaN, infinite), no tap leaves the image.
 */
#ifndef MCP26_VISION_H
#define MCP26_VISION_H

#include "mcp26_abi.h"
#include "conv_nd.h"
#include "vmath.h"

enum { SAMPLE_AXES = 3, ROI_MOST_SAMPLES = 1 << 14 };

typedef enum { SAMPLE_NEAREST, SAMPLE_LINEAR, SAMPLE_CUBIC } sample_mode;
typedef enum { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION } sample_padding;

/* Axes outermost first. */
typedef struct {
    sample_mode mode;
    sample_padding padding;
    int align_corners;
    int64_t items, channels, axes, in[SAMPLE_AXES], pixels; /* pixels of the output, per item */
} sample_shape;

/* The taps along an axis: elements index[i], -1 for a zero. */
typedef struct {
    int64_t index[4];
    float weight[4];
} sample_taps;

MCP26_INLINE int64_t sample_count(sample_mode mode) { return mode == SAMPLE_NEAREST ? 1 : mode == SAMPLE_LINEAR ? 2 : 4; }

/* x within low ... high, mirrored at both as often as it takes. */
MCP26_INLINE float sample_mirror(float x, float low, float high) {
    float range = high - low, beyond = x < low ? low - x : x - high;
    if ((x >= low && x <= high) || range <= 0.0f) return range <= 0.0f ? low : x;
    float times = __builtin_elementwise_floor(beyond / range), rest = beyond - times * range;
    int is_even = times * 0.5f == __builtin_elementwise_floor(times * 0.5f);
    return (x < low) == is_even ? low + rest : high - rest;
}

/* An index beyond the image, by the padding. */
MCP26_INLINE int64_t sample_index(sample_shape s, int64_t at, int64_t size) {
    if (at >= 0 && at < size) return at;
    if (s.padding == SAMPLE_ZEROS || size == 0) return -1;
    if (s.padding == SAMPLE_BORDER) return at < 0 ? 0 : size - 1;
    int64_t period = s.align_corners ? mcp26_max(1, 2 * (size - 1)) : 2 * size;
    int64_t place = ((at % period) + period) % period;
    return place < size ? place : period - place - !s.align_corners;
}

MCP26_INLINE sample_taps sample_taps_at(sample_shape s, float normal, int64_t size) {
    float last = (float)(size - 1), low = s.align_corners ? 0.0f : -0.5f, high = last - low;
    float x = s.align_corners ? (normal + 1.0f) / 2.0f * last : ((normal + 1.0f) * (float)size - 1.0f) / 2.0f;
    x = x > -0x1p30f ? x : -0x1p30f; /* also for a NaN */
    x = x < 0x1p30f ? x : 0x1p30f;
    if (s.mode == SAMPLE_NEAREST) x = __builtin_elementwise_roundeven(x);
    if (s.padding == SAMPLE_BORDER && s.mode != SAMPLE_CUBIC) x = x < 0.0f ? 0.0f : x > last ? last : x;
    if (s.padding == SAMPLE_REFLECTION) x = sample_mirror(x, low, high);
    float floor = __builtin_elementwise_floor(x), r = x - floor;
    int64_t first = (int64_t)floor - (s.mode == SAMPLE_CUBIC);
    sample_taps t = {.weight = {1.0f}};
    if (s.mode == SAMPLE_LINEAR) t.weight[0] = 1.0f - r, t.weight[1] = r;
    if (s.mode == SAMPLE_CUBIC) {
        const float a = -0.75f;
        MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
            float d = i < 2 ? r + 1.0f - (float)i : (float)i - 1.0f - r;
            t.weight[i] = i == 1 || i == 2 ? ((a + 2.0f) * d - (a + 3.0f)) * d * d + 1.0f
                                           : ((a * d - 5.0f * a) * d + 8.0f * a) * d - 4.0f * a;
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < sample_count(s.mode); i++) t.index[i] = sample_index(s, first + i, size);
    return t;
}

/* y[items][pixels][channels] from x[items][in...][channels] at grid[items][pixels][axes], coordinates innermost axis
 * first. Units: output pixels of all items. */
MCP26_INLINE void grid_sample_f32(sample_shape s, const float *x, const float *grid, float *y, int64_t begin,
                                  int64_t end) {
    int64_t count = sample_count(s.mode), taps = count * count * (s.axes == 3 ? count : 1), whole = 1;
    if (s.axes == 1) taps = count;
    for (int64_t d = 0; d < s.axes; d++) whole *= s.in[d];
    for (int64_t u = begin; u < end; u++) {
        const float *item = x + u / s.pixels * whole * s.channels;
        sample_taps t[SAMPLE_AXES];
        for (int64_t d = 0; d < s.axes; d++) t[d] = sample_taps_at(s, grid[u * s.axes + s.axes - 1 - d], s.in[d]);
        for (int64_t n = 0; n < s.channels; n += 8) {
            int64_t lanes = mcp26_min(8, s.channels - n);
            v8f sum = 0.0f;
            for (int64_t k = 0; k < taps; k++) {
                int64_t offset = 0, rest = k, is_inside = 1, step = 1;
                float weight = 1.0f;
                for (int64_t d = s.axes - 1; d >= 0; d--) {
                    int64_t at = t[d].index[rest % count];
                    weight *= t[d].weight[rest % count];
                    is_inside &= at >= 0;
                    offset += at * step;
                    step *= s.in[d];
                    rest /= count;
                }
                if (is_inside) sum = v8f_fma(v8f_load(item + offset * s.channels + n, lanes), v8f_splat(weight), sum);
            }
            v8f_store(y + u * s.channels + n, sum, lanes);
        }
    }
}

/* grid[items][size...][axes] = theta[items][axes][axes + 1] times (coordinates innermost axis first, 1). Units: rows,
 * items * all sizes but the last. */
MCP26_INLINE void affine_grid_f32(int align_corners, int64_t axes, const int64_t *size, const float *theta, float *y,
                                  int64_t begin, int64_t end) {
    int64_t rows = 1, width = size[axes - 1];
    for (int64_t d = 0; d + 1 < axes; d++) rows *= size[d];
    for (int64_t u = begin; u < end; u++) {
        const float *matrix = theta + u / rows * axes * (axes + 1);
        float place[SAMPLE_AXES];
        for (int64_t i = 0; i < width; i++) {
            int64_t rest = u % rows * width + i;
            for (int64_t d = axes - 1; d >= 0; d--) {
                float at = (float)(rest % size[d]), n = (float)size[d];
                place[axes - 1 - d] = align_corners ? (size[d] > 1 ? 2.0f * at / (n - 1.0f) - 1.0f : -1.0f)
                                                    : (2.0f * at + 1.0f) / n - 1.0f;
                rest /= size[d];
            }
            for (int64_t r = 0; r < axes; r++) {
                float sum = matrix[r * (axes + 1) + axes];
                for (int64_t d = 0; d < axes; d++) {
                    sum = __builtin_fmaf(matrix[r * (axes + 1) + d], place[d], sum);
                }
                y[(u * width + i) * axes + r] = sum;
            }
        }
    }
}

typedef struct {
    int64_t items, in_h, in_w, channels, out_h, out_w;
    int64_t samples;        /* along each side of a bin; 0: as many as pixels */
    float scale, offset;    /* of coordinates; half a pixel or nothing */
    int is_max, is_index64; /* batch indices of 64 bits */
} roi_shape;

/* Where a sample lies between two rows or columns. */
typedef struct {
    int64_t low, high;
    float weight[2];
} roi_tap;

MCP26_INLINE roi_tap roi_tap_at(float at, int64_t size) {
    if (!(at >= -1.0f && at <= (float)size)) return (roi_tap){.low = -1};
    if (at < 0.0f) at = 0.0f;
    int64_t low = (int64_t)at;
    if (low >= size - 1) return (roi_tap){size - 1, size - 1, {1.0f, 0.0f}};
    return (roi_tap){low, low + 1, {1.0f - (at - (float)low), at - (float)low}};
}

/* Samples along a side of a bin. */
MCP26_INLINE int64_t roi_samples(roi_shape s, float side) {
    if (s.samples > 0) return s.samples;
    float count = __builtin_elementwise_ceil(side);
    return count >= 1.0f ? (count < (float)ROI_MOST_SAMPLES ? (int64_t)count : ROI_MOST_SAMPLES) : 0;
}

/* y[rois][out_h][out_w][channels]. A maximum is that of all taps times their weights, as ONNX Runtime has it. Units:
 * rois * out_h. A batch index outside 0 ... items-1 is a fault. */
MCP26_INLINE int32_t roi_align_f32(mcp26_env *env, roi_shape s, const float *x, const float *rois, const void *items,
                                   float *y, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / s.out_h, item = s.is_index64 ? ((const int64_t *)items)[r] : ((const int32_t *)items)[r];
        if (item < 0 || item >= s.items) {
            env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, item, s.items};
            return MCP26_STEP_DATA;
        }
        float left = rois[4 * r] * s.scale - s.offset, top = rois[4 * r + 1] * s.scale - s.offset;
        float width = rois[4 * r + 2] * s.scale - s.offset - left, height = rois[4 * r + 3] * s.scale - s.offset - top;
        if (s.offset == 0.0f) width = width > 1.0f ? width : 1.0f, height = height > 1.0f ? height : 1.0f;
        float bin_w = width / (float)s.out_w, bin_h = height / (float)s.out_h;
        int64_t across = roi_samples(s, bin_w), down = roi_samples(s, bin_h);
        const float *image = x + item * s.in_h * s.in_w * s.channels;
        for (int64_t column = 0; column < s.out_w; column++) {
            for (int64_t n = 0; n < s.channels; n += 8) {
                int64_t lanes = mcp26_min(8, s.channels - n), is_first = 1;
                v8f sum = 0.0f;
                for (int64_t i = 0; i < down; i++) {
                    float at = top + (float)(u % s.out_h) * bin_h + ((float)i + 0.5f) * bin_h / (float)down;
                    roi_tap v = roi_tap_at(at, s.in_h);
                    for (int64_t j = 0; j < across; j++) {
                        at = left + (float)column * bin_w + ((float)j + 0.5f) * bin_w / (float)across;
                        roi_tap h = roi_tap_at(at, s.in_w);
                        int is_outside = v.low < 0 || h.low < 0;
                        MCP26_UNROLL for (int64_t k = 0; k < 4; k++) {
                            int64_t row = k / 2 ? v.high : v.low, place = k % 2 ? h.high : h.low;
                            v8f tap = 0.0f;
                            if (!is_outside) {
                                tap = v8f_load(image + (row * s.in_w + place) * s.channels + n, lanes);
                                tap *= v.weight[k / 2] * h.weight[k % 2];
                            }
                            sum = !s.is_max ? sum + tap : is_first ? tap : v8f_max(sum, tap);
                            is_first = 0;
                        }
                    }
                }
                if (!s.is_max) sum /= (float)mcp26_max(1, across * down);
                v8f_store(y + (u * s.out_w + column) * s.channels + n, sum, lanes);
            }
        }
    }
    return 0;
}

/* Position `at` of a region's border, in pixels: halves away from zero, NaN at 0. */
MCP26_INLINE int64_t roi_pixel(float at) {
    float x = at > -0x1p30f ? (at < 0x1p30f ? at : 0x1p30f) : at < 0.0f ? -0x1p30f : 0.0f;
    return (int64_t)(x < 0.0f ? __builtin_elementwise_ceil(x - 0.5f) : __builtin_elementwise_floor(x + 0.5f));
}

/* The pixels first ... last-1 of a side of `size` that bin `bin` of `bins` has, of a region from `low` to `high`. */
typedef struct {
    int64_t first, last;
} roi_range;

MCP26_INLINE roi_range roi_range_at(int64_t low, int64_t high, int64_t bin, int64_t bins, int64_t size) {
    float step = (float)mcp26_max(high - low + 1, 1) / (float)bins;
    int64_t first = low + (int64_t)__builtin_elementwise_floor((float)bin * step);
    int64_t last = low + (int64_t)__builtin_elementwise_ceil((float)(bin + 1) * step);
    return (roi_range){mcp26_max(0, mcp26_min(first, size)), mcp26_max(0, mcp26_min(last, size))};
}

/* Maxima of the bins of rois[rois][5] (item, x1, y1, x2, y2), 0 of empty ones; fields as of roi_align_f32. Units and
 * faults too. */
MCP26_INLINE int32_t max_roi_pool_f32(mcp26_env *env, roi_shape s, const float *x, const float *rois, float *y,
                                      int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        const float *roi = rois + 5 * (u / s.out_h);
        int64_t item = roi[0] >= 0.0f && roi[0] < (float)s.items ? (int64_t)roi[0] : -1;
        if (item < 0) {
            env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, roi_pixel(roi[0]), s.items};
            return MCP26_STEP_DATA;
        }
        int64_t top = roi_pixel(roi[2] * s.scale), bottom = roi_pixel(roi[4] * s.scale);
        int64_t left = roi_pixel(roi[1] * s.scale), right = roi_pixel(roi[3] * s.scale);
        roi_range rows = roi_range_at(top, bottom, u % s.out_h, s.out_h, s.in_h);
        for (int64_t column = 0; column < s.out_w; column++) {
            roi_range columns = roi_range_at(left, right, column, s.out_w, s.in_w);
            for (int64_t n = 0; n < s.channels; n += 8) {
                int64_t lanes = mcp26_min(8, s.channels - n), is_empty = 1;
                v8f best = -MCP26_INFINITY;
                for (int64_t r = rows.first; r < rows.last; r++) {
                    for (int64_t c = columns.first; c < columns.last; c++, is_empty = 0) {
                        const float *from = x + ((item * s.in_h + r) * s.in_w + c) * s.channels + n;
                        best = v8f_max(best, v8f_load(from, lanes));
                    }
                }
                v8f_store(y + (u * s.out_w + column) * s.channels + n, is_empty ? v8f_splat(0.0f) : best, lanes);
            }
        }
    }
    return 0;
}

/* y[items][channels][out...] adds up x[items][channels][taps][blocks]: `s` is the transposed window from blocks to the
 * image, its in_c and out_c the channels. Units: rows of the result. */
MCP26_INLINE int64_t col2im_units(window_shape s) { return s.batch * s.out_c * s.out[0] * s.out[1]; }

MCP26_INLINE void col2im_f32(window_shape s, const float *x, float *y, int64_t begin, int64_t end) {
    int64_t taps = window_taps(s), blocks = s.in[0] * s.in[1] * s.in[2];
    for (int64_t u = begin; u < end; u++) {
        int64_t plane = u / s.out[1] / s.out[0], at[3] = {u / s.out[1] % s.out[0], u % s.out[1], 0};
        for (at[2] = 0; at[2] < s.out[2]; at[2]++) {
            float sum = 0.0f;
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t from = window_pixel(s, 0, at, tap);
                if (from >= 0) sum += x[(plane * taps + tap) * blocks + from];
            }
            y[u * s.out[2] + at[2]] = sum;
        }
    }
}

#endif
