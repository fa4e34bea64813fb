/* trees.h: ensembles of decision trees. A unit is a row of features, for which the trees are walked one after the other.
 */
#ifndef MCP26_TREES_H
#define MCP26_TREES_H

#include "index.h"
#include "vmath.h"

/* What a node asks of its feature x and its number, in the order of ONNX; a member's number is that of its set. */
typedef enum { TREES_LEQ, TREES_LT, TREES_GTE, TREES_GT, TREES_EQ, TREES_NEQ, TREES_MEMBER, TREES_MIXED } trees_mode;
typedef enum { TREES_AVERAGE, TREES_SUM, TREES_MIN, TREES_MAX } trees_aggregate;
typedef enum { TREES_NONE, TREES_SOFTMAX, TREES_LOGISTIC, TREES_SOFTMAX_ZERO } trees_transform;

/* Of a node's first word: the feature, the mode, whether a NaN leads to yes. */
enum { TREES_FEATURE = (1 << 24) - 1, TREES_MODE = 24, TREES_MISSING = 28 };

/* nodes[][3] are the first word and where no and yes lead: to a node, or ~i for leaf i, as roots[trees] do. Leaf i adds
 * weights[j] to the output targets[j] for j from leaves[i] to leaves[i + 1]; set i holds members[j] likewise. `mode` is
 * that of all nodes, or TREES_MIXED; base[outputs] is added at the end, if it is there. */
#define TREES_DEFINE(NAME, T, V, MOST)                                                                                 \
    typedef struct {                                                                                                   \
        int64_t features, trees, outputs;                                                                              \
        trees_mode mode;                                                                                               \
        trees_aggregate aggregate;                                                                                     \
        trees_transform transform;                                                                                     \
        const int32_t *nodes, *roots, *leaves, *targets, *sets;                                                        \
        const T *splits, *weights, *members, *base;                                                                    \
    } trees_##NAME;                                                                                                    \
    MCP26_INLINE int32_t trees_##NAME##_asks(trees_##NAME a, trees_mode mode, int32_t node, T x) {                     \
        T split = a.splits[node];                                                                                      \
        if (mode == TREES_LEQ) return x <= split;                                                                      \
        if (mode == TREES_LT) return x < split;                                                                        \
        if (mode == TREES_GTE) return x >= split;                                                                      \
        if (mode == TREES_GT) return x > split;                                                                        \
        if (mode == TREES_EQ) return x == split;                                                                       \
        if (mode == TREES_NEQ) return x != split;                                                                      \
        int32_t set = (int32_t)split, is_member = 0;                                                                   \
        for (int32_t j = a.sets[set]; j < a.sets[set + 1]; j++) is_member |= x == a.members[j];                        \
        return is_member;                                                                                              \
    }                                                                                                                  \
    /* The leaf that a row leads to. */                                                                                \
    MCP26_INLINE int32_t trees_##NAME##_leaf(trees_##NAME a, int32_t at, const T *x) {                                 \
        while (at >= 0) {                                                                                              \
            const int32_t *node = a.nodes + 3 * (int64_t)at;                                                           \
            T value = x[node[0] & TREES_FEATURE];                                                                      \
            trees_mode mode = a.mode == TREES_MIXED ? (trees_mode)(node[0] >> TREES_MODE & 7) : a.mode;                \
            int32_t yes = trees_##NAME##_asks(a, mode, at, value);                                                     \
            if (value != value) yes |= node[0] >> TREES_MISSING & 1;                                                   \
            at = node[1 + yes];                                                                                        \
        }                                                                                                              \
        return ~at;                                                                                                    \
    }                                                                                                                  \
    MCP26_INLINE void trees_##NAME##_transform(trees_##NAME a, T *y) {                                                 \
        if (a.transform == TREES_LOGISTIC) {                                                                           \
            for (int64_t i = 0; i < a.outputs; i++) y[i] = V##_sigmoid(V##_splat(y[i]))[0];                            \
            return;                                                                                                    \
        }                                                                                                              \
        T peak = -MOST, sum = 0;                                                                                       \
        for (int64_t i = 0; i < a.outputs; i++) peak = y[i] > peak ? y[i] : peak;                                      \
        for (int64_t i = 0; i < a.outputs; i++) { /* SOFTMAX_ZERO keeps zeros, or what is as good as one */            \
            int32_t is_zero = a.transform == TREES_SOFTMAX_ZERO && y[i] <= (T)1e-7 && y[i] >= (T)-1e-7;                \
            T power = V##_exp(V##_splat(is_zero ? -peak : y[i] - peak))[0];                                            \
            y[i] = is_zero ? y[i] * power : power;                                                                     \
            sum += y[i];                                                                                               \
        }                                                                                                              \
        for (int64_t i = 0; i < a.outputs; i++) y[i] = sum == 0 ? (T)0.5 : y[i] / sum;                                 \
    }                                                                                                                  \
    MCP26_INLINE void trees_##NAME##_rows(trees_##NAME a, const T *x, T *y, int64_t begin, int64_t end) {              \
        for (int64_t u = begin; u < end; u++) {                                                                        \
            T *out = y + u * a.outputs;                                                                                \
            T first = a.aggregate == TREES_MIN ? MOST : a.aggregate == TREES_MAX ? -MOST : (T)0;                       \
            for (int64_t i = 0; i < a.outputs; i++) out[i] = first;                                                    \
            for (int64_t t = 0; t < a.trees; t++) {                                                                    \
                int32_t leaf = trees_##NAME##_leaf(a, a.roots[t], x + u * a.features);                                 \
                for (int32_t j = a.leaves[leaf]; j < a.leaves[leaf + 1]; j++) {                                        \
                    T *sum = out + a.targets[j], weight = a.weights[j];                                                \
                    if (a.aggregate == TREES_MIN) {                                                                    \
                        *sum = weight < *sum ? weight : *sum;                                                          \
                    } else if (a.aggregate == TREES_MAX) {                                                             \
                        *sum = weight > *sum ? weight : *sum;                                                          \
                    } else {                                                                                           \
                        *sum += weight;                                                                                \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
            for (int64_t i = 0; i < a.outputs; i++) {                                                                  \
                if (a.aggregate == TREES_AVERAGE) out[i] = out[i] / (T)a.trees;                                        \
                if (a.base) out[i] += a.base[i];                                                                       \
            }                                                                                                          \
            if (a.transform != TREES_NONE) trees_##NAME##_transform(a, out);                                           \
        }                                                                                                              \
    }

TREES_DEFINE(f32, float, v8f, 0x1.fffffep127f)
TREES_DEFINE(f64, double, v8d, 0x1.fffffffffffffp1023)

#endif
