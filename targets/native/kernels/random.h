/* random.h: random numbers, by Philox 4x32-10 (J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011): a
 * block of four 32-bit words is a function of the stream's key and the block's number. Streams are the same on every ISA.
 */
#ifndef MCP26_RANDOM_H
#define MCP26_RANDOM_H

#include "mcp26_abi.h"
#include "vmath.h"

/* Of one stream, among the session's state, which is zero at first: the number of blocks that were used. */
typedef struct {
    uint64_t used, key;
} random_state;

/* Numbers that are drawn at once, from RANDOM_BLOCKS blocks. */
enum { RANDOM_NUMBERS = 16, RANDOM_BLOCKS = 8 };
typedef struct {
    v8d part[2];
} random_numbers;

/* Words that differ from run to run of a process: a clock and an address. */
MCP26_INLINE uint64_t random_clock(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#endif
}

/* Both halves of a block's words as numbers in [0, 1) with 53 bits: lane i is of block `first` + i. */
MCP26_INLINE random_numbers random_draw(uint64_t key, uint64_t first) {
    v8q block = first + (v8q){0, 1, 2, 3, 4, 5, 6, 7};
    v8u word[4] = {__builtin_convertvector(block, v8u), __builtin_convertvector(block >> 32, v8u), 0, 0};
    uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        v8q a = __builtin_convertvector(word[0], v8q) * 0xd2511f53u;
        v8q b = __builtin_convertvector(word[2], v8q) * 0xcd9e8d57u;
        word[0] = __builtin_convertvector(b >> 32, v8u) ^ word[1] ^ low;
        word[1] = __builtin_convertvector(b, v8u);
        word[2] = __builtin_convertvector(a >> 32, v8u) ^ word[3] ^ high;
        word[3] = __builtin_convertvector(a, v8u);
        low += 0x9e3779b9u;
        high += 0xbb67ae85u;
    }
    random_numbers numbers;
    MCP26_UNROLL for (int i = 0; i < 2; i++) {
        v8q bits = __builtin_convertvector(word[2 * i] >> 5, v8q) << 26;
        bits |= __builtin_convertvector(word[2 * i + 1] >> 6, v8q);
        numbers.part[i] = __builtin_convertvector(bits, v8d) * 0x1p-53;
    }
    return numbers;
}

/* The stream's next numbers. */
MCP26_INLINE random_numbers random_next(random_state *s) {
    random_numbers numbers = random_draw(s->key, s->used);
    s->used += RANDOM_BLOCKS;
    return numbers;
}

MCP26_INLINE void random_seed(random_state *s, uint64_t seed) { s->key = seed; }

/* A key of the session's own. */
MCP26_INLINE void random_seed_by_chance(random_state *s) {
    if (s->used != 0) return;
    random_numbers mixed = random_draw(random_clock(), (uint64_t)(uintptr_t)s);
    s->key = ((v8q)mixed.part[0])[0] << 12 ^ ((v8q)mixed.part[1])[0];
}

/* Of `steps` numbers in [0, 1), and so below 1 in a type of fewer bits too. */
MCP26_INLINE v8d random_uniform(v8d x, double steps) { return v8d_floor(x * steps) / steps; }

/* Normally distributed (G. Box and M. Muller, 1958). */
MCP26_INLINE random_numbers random_normal(random_numbers x) {
    v8d radius = v8d_sqrt(-2.0 * v8d_log(1.0 - x.part[0])), angle = x.part[1] * 0x1.921fb54442d18p+2;
    return (random_numbers){{radius * v8d_cos(angle), radius * v8d_sin(angle)}};
}

/* Of logarithms of weights, the sums of the weights up to each, in place; the largest weight counts 1. Weights that are
 * no number count 0. */
MCP26_INLINE void random_cumulate(int64_t classes, double *weights) {
    double most = -(double)MCP26_INFINITY, sum = 0.0;
    for (int64_t i = 0; i < classes; i++) most = weights[i] > most ? weights[i] : most;
    for (int64_t i = 0; i < classes; i++) {
        double weight = weights[i] == most ? 1.0 : v8d_exp(v8d_splat(weights[i] - most))[0];
        sum += weight > 0.0 ? weight : 0.0;
        weights[i] = sum;
    }
}

/* The class that x out of [0, 1) falls into. */
MCP26_INLINE int64_t random_class(int64_t classes, const double *sums, double x) {
    double at = x * sums[classes - 1];
    int64_t low = 0, high = classes - 1; /* the first whose sum is above */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (sums[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

#endif
