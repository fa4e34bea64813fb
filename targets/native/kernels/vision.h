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

MCP26_INLINE int64_t sample_count(sample_mode mode) {
    return mode == SAMPLE_NEAREST ? 1 : mode == SAMPLE_LINEAR ? 2 : 4;
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

/* The pixels first ... last-1 of a side of `size` that bin `bin` of `bins` has, of a region from `low` to `high`. */
typedef struct {
    int64_t first, last;
} roi_range;

/* Units of col2im. */
MCP26_INLINE int64_t col2im_units(window_shape s) { return s.batch * s.out_c * s.out[0] * s.out[1]; }

#define T float
#define V v8f
#define NAME(f) f##_f32
#define V_(f) v8f_##f
#include "vision_typed.h"

#define T double
#define V v8d
#define NAME(f) f##_f64
#define V_(f) v8d_##f
#include "vision_typed.h"

#endif
