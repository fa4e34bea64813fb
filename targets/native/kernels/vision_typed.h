/* vision_typed.h: the part of vision.h that depends on the type; that includes it once for each. T is the type, V eight of
 * it, NAME(f) is f with the type's suffix, V_(f) V's function f of simd.h.
 */

/* The taps along an axis: elements index[i], -1 for a zero. */
typedef struct {
    int64_t index[4];
    T weight[4];
} NAME(sample_taps);

/* x within low ... high, mirrored at both as often as it takes. */
MCP26_INLINE T NAME(sample_mirror)(T x, T low, T high) {
    T range = high - low, beyond = x < low ? low - x : x - high;
    if ((x >= low && x <= high) || range <= 0) return range <= 0 ? low : x;
    T times = __builtin_elementwise_floor(beyond / range), rest = beyond - times * range;
    int is_even = times * (T)0.5 == __builtin_elementwise_floor(times * (T)0.5);
    return (x < low) == is_even ? low + rest : high - rest;
}

MCP26_INLINE NAME(sample_taps) NAME(sample_taps_at)(sample_shape s, T normal, int64_t size) {
    T last = (T)(size - 1), low = s.align_corners ? 0 : -(T)0.5, high = last - low;
    T x = s.align_corners ? (normal + 1) / 2 * last : ((normal + 1) * (T)size - 1) / 2;
    x = x > -(T)0x1p30 ? x : -(T)0x1p30; /* also for a NaN */
    x = x < (T)0x1p30 ? x : (T)0x1p30;
    if (s.mode == SAMPLE_NEAREST) x = __builtin_elementwise_roundeven(x);
    if (s.padding == SAMPLE_BORDER && s.mode != SAMPLE_CUBIC) x = x < 0 ? 0 : x > last ? last : x;
    if (s.padding == SAMPLE_REFLECTION) x = NAME(sample_mirror)(x, low, high);
    T floor = __builtin_elementwise_floor(x), r = x - floor;
    int64_t first = (int64_t)floor - (s.mode == SAMPLE_CUBIC);
    NAME(sample_taps) t = {.weight = {1}};
    if (s.mode == SAMPLE_LINEAR) t.weight[0] = 1 - r, t.weight[1] = r;
    if (s.mode == SAMPLE_CUBIC) {
        const T a = -(T)0.75;
        MCP26_UNROLL for (int64_t i = 0; i < 4; i++) {
            T d = i < 2 ? r + 1 - (T)i : (T)i - 1 - r;
            t.weight[i] = i == 1 || i == 2 ? ((a + 2) * d - (a + 3)) * d * d + 1
                                           : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
        }
    }
    MCP26_UNROLL for (int64_t i = 0; i < sample_count(s.mode); i++) t.index[i] = sample_index(s, first + i, size);
    return t;
}

/* y[items][pixels][channels] from x[items][in...][channels] at grid[items][pixels][axes], coordinates innermost axis
 * first. Units: output pixels of all items. */
MCP26_INLINE void NAME(grid_sample)(sample_shape s, const T *x, const T *grid, T *y, int64_t begin, int64_t end) {
    int64_t count = sample_count(s.mode), taps = count * count * (s.axes == 3 ? count : 1), whole = 1;
    if (s.axes == 1) taps = count;
    for (int64_t d = 0; d < s.axes; d++) whole *= s.in[d];
    for (int64_t u = begin; u < end; u++) {
        const T *item = x + u / s.pixels * whole * s.channels;
        NAME(sample_taps) t[SAMPLE_AXES];
        for (int64_t d = 0; d < s.axes; d++) t[d] = NAME(sample_taps_at)(s, grid[u * s.axes + s.axes - 1 - d], s.in[d]);
        for (int64_t n = 0; n < s.channels; n += 8) {
            int64_t lanes = mcp26_min(8, s.channels - n);
            V sum = (T)0;
            for (int64_t k = 0; k < taps; k++) {
                int64_t offset = 0, rest = k, is_inside = 1, step = 1;
                T weight = 1;
                for (int64_t d = s.axes - 1; d >= 0; d--) {
                    int64_t at = t[d].index[rest % count];
                    weight *= t[d].weight[rest % count];
                    is_inside &= at >= 0;
                    offset += at * step;
                    step *= s.in[d];
                    rest /= count;
                }
                if (is_inside) sum = V_(fma)(V_(load)(item + offset * s.channels + n, lanes), V_(splat)(weight), sum);
            }
            V_(store)(y + u * s.channels + n, sum, lanes);
        }
    }
}

/* grid[items][size...][axes] = theta[items][axes][axes + 1] times (coordinates innermost axis first, 1). Units: rows,
 * items * all sizes but the last. */
MCP26_INLINE void NAME(affine_grid)(int align_corners, int64_t axes, const int64_t *size, const T *theta, T *y,
                                    int64_t begin, int64_t end) {
    int64_t rows = 1, width = size[axes - 1];
    for (int64_t d = 0; d + 1 < axes; d++) rows *= size[d];
    for (int64_t u = begin; u < end; u++) {
        const T *matrix = theta + u / rows * axes * (axes + 1);
        T place[SAMPLE_AXES];
        for (int64_t i = 0; i < width; i++) {
            int64_t rest = u % rows * width + i;
            for (int64_t d = axes - 1; d >= 0; d--) {
                T at = (T)(rest % size[d]), n = (T)size[d];
                place[axes - 1 - d] = align_corners ? (size[d] > 1 ? 2 * at / (n - 1) - 1 : -1)
                                                    : (2 * at + 1) / n - 1;
                rest /= size[d];
            }
            for (int64_t r = 0; r < axes; r++) {
                T sum = matrix[r * (axes + 1) + axes];
                for (int64_t d = 0; d < axes; d++) {
                    sum = __builtin_elementwise_fma(matrix[r * (axes + 1) + d], place[d], sum);
                }
                y[(u * width + i) * axes + r] = sum;
            }
        }
    }
}

typedef struct {
    int64_t items, in_h, in_w, channels, out_h, out_w;
    int64_t samples;        /* along each side of a bin; 0: as many as pixels */
    T scale, offset;        /* of coordinates; half a pixel or nothing */
    int is_max, is_index64; /* batch indices of 64 bits */
} NAME(roi_shape);

/* Where a sample lies between two rows or columns. */
typedef struct {
    int64_t low, high;
    T weight[2];
} NAME(roi_tap);

MCP26_INLINE NAME(roi_tap) NAME(roi_tap_at)(T at, int64_t size) {
    if (!(at >= -1 && at <= (T)size)) return (NAME(roi_tap)){.low = -1};
    if (at < 0) at = 0;
    int64_t low = (int64_t)at;
    if (low >= size - 1) return (NAME(roi_tap)){size - 1, size - 1, {1, 0}};
    return (NAME(roi_tap)){low, low + 1, {1 - (at - (T)low), at - (T)low}};
}

/* Samples along a side of a bin. */
MCP26_INLINE int64_t NAME(roi_samples)(NAME(roi_shape) s, T side) {
    if (s.samples > 0) return s.samples;
    T count = __builtin_elementwise_ceil(side);
    return count >= 1 ? (count < (T)ROI_MOST_SAMPLES ? (int64_t)count : ROI_MOST_SAMPLES) : 0;
}

/* y[rois][out_h][out_w][channels]. A maximum is that of all taps times their weights, as ONNX Runtime has it. Units:
 * rois * out_h. A batch index outside 0 ... items-1 is a fault. */
MCP26_INLINE int32_t NAME(roi_align)(mcp26_env *env, NAME(roi_shape) s, const T *x, const T *rois, const void *items,
                                     T *y, int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / s.out_h, item = s.is_index64 ? ((const int64_t *)items)[r] : ((const int32_t *)items)[r];
        if (item < 0 || item >= s.items) {
            env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, item, s.items};
            return MCP26_STEP_DATA;
        }
        T left = rois[4 * r] * s.scale - s.offset, top = rois[4 * r + 1] * s.scale - s.offset;
        T width = rois[4 * r + 2] * s.scale - s.offset - left, height = rois[4 * r + 3] * s.scale - s.offset - top;
        if (s.offset == 0) width = width > 1 ? width : 1, height = height > 1 ? height : 1;
        T bin_w = width / (T)s.out_w, bin_h = height / (T)s.out_h;
        int64_t across = NAME(roi_samples)(s, bin_w), down = NAME(roi_samples)(s, bin_h);
        const T *image = x + item * s.in_h * s.in_w * s.channels;
        for (int64_t column = 0; column < s.out_w; column++) {
            for (int64_t n = 0; n < s.channels; n += 8) {
                int64_t lanes = mcp26_min(8, s.channels - n), is_first = 1;
                V sum = (T)0;
                for (int64_t i = 0; i < down; i++) {
                    T at = top + (T)(u % s.out_h) * bin_h + ((T)i + (T)0.5) * bin_h / (T)down;
                    NAME(roi_tap) v = NAME(roi_tap_at)(at, s.in_h);
                    for (int64_t j = 0; j < across; j++) {
                        at = left + (T)column * bin_w + ((T)j + (T)0.5) * bin_w / (T)across;
                        NAME(roi_tap) h = NAME(roi_tap_at)(at, s.in_w);
                        int is_outside = v.low < 0 || h.low < 0;
                        MCP26_UNROLL for (int64_t k = 0; k < 4; k++) {
                            int64_t row = k / 2 ? v.high : v.low, place = k % 2 ? h.high : h.low;
                            V tap = (T)0;
                            if (!is_outside) {
                                tap = V_(load)(image + (row * s.in_w + place) * s.channels + n, lanes);
                                tap *= v.weight[k / 2] * h.weight[k % 2];
                            }
                            sum = !s.is_max ? sum + tap : is_first ? tap : V_(max)(sum, tap);
                            is_first = 0;
                        }
                    }
                }
                if (!s.is_max) sum /= (T)mcp26_max(1, across * down);
                V_(store)(y + (u * s.out_w + column) * s.channels + n, sum, lanes);
            }
        }
    }
    return 0;
}

/* Position `at` of a region's border, in pixels: halves away from zero, NaN at 0. */
MCP26_INLINE int64_t NAME(roi_pixel)(T at) {
    T x = at > -(T)0x1p30 ? (at < (T)0x1p30 ? at : (T)0x1p30) : at < 0 ? -(T)0x1p30 : 0;
    return (int64_t)(x < 0 ? __builtin_elementwise_ceil(x - (T)0.5) : __builtin_elementwise_floor(x + (T)0.5));
}

MCP26_INLINE roi_range NAME(roi_range_at)(int64_t low, int64_t high, int64_t bin, int64_t bins, int64_t size) {
    T step = (T)mcp26_max(high - low + 1, 1) / (T)bins;
    int64_t first = low + (int64_t)__builtin_elementwise_floor((T)bin * step);
    int64_t last = low + (int64_t)__builtin_elementwise_ceil((T)(bin + 1) * step);
    return (roi_range){mcp26_max(0, mcp26_min(first, size)), mcp26_max(0, mcp26_min(last, size))};
}

/* Maxima of the bins of rois[rois][5] (item, x1, y1, x2, y2), 0 of empty ones; fields as of roi_align. Units and
 * faults too. */
MCP26_INLINE int32_t NAME(max_roi_pool)(mcp26_env *env, NAME(roi_shape) s, const T *x, const T *rois, T *y,
                                        int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
        const T *roi = rois + 5 * (u / s.out_h);
        int64_t item = roi[0] >= 0 && roi[0] < (T)s.items ? (int64_t)roi[0] : -1;
        if (item < 0) {
            env->fault = (mcp26_fault){0, MCP26_DATA_INDEX, NAME(roi_pixel)(roi[0]), s.items};
            return MCP26_STEP_DATA;
        }
        int64_t top = NAME(roi_pixel)(roi[2] * s.scale), bottom = NAME(roi_pixel)(roi[4] * s.scale);
        int64_t left = NAME(roi_pixel)(roi[1] * s.scale), right = NAME(roi_pixel)(roi[3] * s.scale);
        roi_range rows = NAME(roi_range_at)(top, bottom, u % s.out_h, s.out_h, s.in_h);
        for (int64_t column = 0; column < s.out_w; column++) {
            roi_range columns = NAME(roi_range_at)(left, right, column, s.out_w, s.in_w);
            for (int64_t n = 0; n < s.channels; n += 8) {
                int64_t lanes = mcp26_min(8, s.channels - n), is_empty = 1;
                V best = -(T)MCP26_INFINITY;
                for (int64_t r = rows.first; r < rows.last; r++) {
                    for (int64_t c = columns.first; c < columns.last; c++, is_empty = 0) {
                        const T *from = x + ((item * s.in_h + r) * s.in_w + c) * s.channels + n;
                        best = V_(max)(best, V_(load)(from, lanes));
                    }
                }
                V_(store)(y + (u * s.out_w + column) * s.channels + n, is_empty ? V_(splat)(0) : best, lanes);
            }
        }
    }
    return 0;
}

/* y[items][channels][out...] adds up x[items][channels][taps][blocks]: `s` is the transposed window from blocks to the
 * image, its in_c and out_c the channels. Units: rows of the result. */
MCP26_INLINE void NAME(col2im)(window_shape s, const T *x, T *y, int64_t begin, int64_t end) {
    int64_t taps = window_taps(s), blocks = s.in[0] * s.in[1] * s.in[2];
    for (int64_t u = begin; u < end; u++) {
        int64_t plane = u / s.out[1] / s.out[0], at[3] = {u / s.out[1] % s.out[0], u % s.out[1], 0};
        for (at[2] = 0; at[2] < s.out[2]; at[2]++) {
            T sum = 0;
            for (int64_t tap = 0; tap < taps; tap++) {
                int64_t from = window_pixel(s, 0, at, tap);
                if (from >= 0) sum += x[(plane * taps + tap) * blocks + from];
            }
            y[u * s.out[2] + at[2]] = sum;
        }
    }
}

#undef T
#undef V
#undef NAME
#undef V_
