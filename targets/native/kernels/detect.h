/* detect.h: NonMaxSuppression. */
#ifndef MCP26_DETECT_H
#define MCP26_DETECT_H

#include "simd.h"

/* `is_center`: boxes are (x, y, width, height) around their centre, otherwise two opposite corners (y, x, y, x). */
typedef struct {
    int64_t items, classes, boxes, most; /* of a class */
    int is_center;
    float overlap, score; /* what two boxes may share at most, what a score must exceed */
    int has_score;
} nms_shape;

typedef struct {
    float low[2], high[2];
} nms_box;

MCP26_INLINE nms_box nms_box_at(nms_shape s, const float *b) {
    nms_box box;
    for (int64_t d = 0; d < 2; d++) {
        float from = s.is_center ? b[d] - b[d + 2] / 2.0f : b[d], to = s.is_center ? b[d] + b[d + 2] / 2.0f : b[d + 2];
        box.low[d] = from < to ? from : to, box.high[d] = from < to ? to : from;
    }
    return box;
}

/* Whether two boxes share more than `overlap` of what they cover together. */
MCP26_INLINE int nms_overlap(nms_shape s, const float *first, const float *second) {
    nms_box a = nms_box_at(s, first), b = nms_box_at(s, second);
    float shared = 1.0f, area_a = 1.0f, area_b = 1.0f;
    for (int64_t d = 0; d < 2; d++) {
        float low = a.low[d] > b.low[d] ? a.low[d] : b.low[d], high = a.high[d] < b.high[d] ? a.high[d] : b.high[d];
        if (!(high > low)) return 0;
        shared *= high - low;
        area_a *= a.high[d] - a.low[d], area_b *= b.high[d] - b.low[d];
    }
    float together = area_a + area_b - shared;
    if (!(shared > 0.0f && area_a > 0.0f && area_b > 0.0f && together > 0.0f)) return 0;
    return shared / together > s.overlap;
}

/* Whether box a comes before box b: by score, then by place. */
MCP26_INLINE int nms_before(const float *score, int64_t a, int64_t b) {
    return score[a] > score[b] || (score[a] == score[b] && a < b);
}

/* Restores a heap of `count` boxes, the best on top, after the box at `at` has changed. */
MCP26_INLINE void nms_sink(const float *score, int64_t *heap, int64_t count, int64_t at) {
    for (;;) {
        int64_t best = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            if (nms_before(score, heap[child], heap[best])) best = child;
        }
        if (best == at) return;
        int64_t moved = heap[at];
        heap[at] = heap[best], heap[best] = moved;
        at = best;
    }
}

/* Writes (item, class, box) for each box that is kept to y, where it is given, and gives their number. A class keeps its
 * best box, then each that overlaps none of those kept before. `work` has room for 2 * boxes. */
MCP26_INLINE int64_t nms_f32(nms_shape s, const float *boxes, const float *scores, int64_t *y, int64_t *work) {
    int64_t *heap = work, *kept = work + s.boxes, total = 0;
    for (int64_t u = 0; u < s.items * s.classes && s.most > 0; u++) {
        const float *box = boxes + u / s.classes * s.boxes * 4, *score = scores + u * s.boxes;
        int64_t count = 0, number = 0;
        for (int64_t i = 0; i < s.boxes; i++) {
            if (!s.has_score || score[i] > s.score) heap[count++] = i;
        }
        for (int64_t i = count / 2 - 1; i >= 0; i--) nms_sink(score, heap, count, i);
        while (count > 0 && number < s.most) {
            int64_t best = heap[0], is_free = 1;
            heap[0] = heap[--count];
            nms_sink(score, heap, count, 0);
            for (int64_t k = 0; k < number && is_free; k++) {
                is_free = !nms_overlap(s, box + 4 * kept[k], box + 4 * best);
            }
            if (!is_free) continue;
            kept[number++] = best;
            if (y) y[3 * total] = u / s.classes, y[3 * total + 1] = u % s.classes, y[3 * total + 2] = best;
            total++;
        }
    }
    return total;
}

#endif
