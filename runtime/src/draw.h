/* draw.h: numbers that this runtime and the compiler (mcpc/draws.py) make alike, for the self-test. */
#ifndef MCP26_DRAW_H
#define MCP26_DRAW_H

#include <stdint.h>

/* Word `i` of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) from `seed`. */
uint64_t mcp26_draw_word(uint64_t seed, uint64_t i);

/* Whether elements of that mcp26_dtype can be drawn and averaged: floats of 16 bits and more, integers of 8, bool. */
int mcp26_draw_has(uint32_t dtype);

/* Fill `elements` elements: element `i` is made of word `i`. Floats are `scale` times the sum of its four 16-bit parts,
 * less the sum's mean: a bell of standard deviation 37837 * scale, cut off at 3.5 of those. All else is the word modulo
 * `range`. */
void mcp26_draw(uint8_t *data, uint32_t dtype, uint64_t elements, uint64_t seed, float scale, uint32_t range);

#endif
