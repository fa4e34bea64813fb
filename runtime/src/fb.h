/* fb.h: reads a FlatBuffer that may be damaged or hostile.
 *
 * Every access is checked against the buffer's bounds. The first one that does not fit sets `fault` to the name of what
 * was read; from then on all accessors return zeros, so that a reader checks once, at the end. Work is bounded as well:
 * many tables that share one large vector would cost quadratic time, so visited vector bytes are charged to `budget`,
 * which a buffer written without sharing cannot exhaust.
 */
#ifndef MCP26_FB_H
#define MCP26_FB_H

#include <stdint.h>

typedef struct {
    const uint8_t *bytes;
    uint32_t size;
    uint64_t budget;
    const char *fault; /* NULL: all well so far */
    const char *where; /* what is being read, for `fault` */
} mcp26_fb;

/* A table's position; `at` 0: there is none. */
typedef struct {
    mcp26_fb *fb;
    uint32_t at, vtable;
    uint16_t vtable_size, size;
} mcp26_fb_table;

/* `count` elements of `element_size` bytes from `at` on, all within the buffer. */
typedef struct {
    mcp26_fb *fb;
    uint32_t at, count, element_size;
} mcp26_fb_vector;

/* The root table of a buffer that carries `identifier`; sets up *fb. */
mcp26_fb_table mcp26_fb_root(mcp26_fb *fb, const uint8_t *bytes, uint64_t size, const char *identifier);

/* Scalars; `otherwise` where the field is left out. */
uint64_t mcp26_fb_u64(const mcp26_fb_table *table, uint32_t slot, uint64_t otherwise);
int64_t mcp26_fb_i64(const mcp26_fb_table *table, uint32_t slot, int64_t otherwise);
uint32_t mcp26_fb_u32(const mcp26_fb_table *table, uint32_t slot, uint32_t otherwise);
int32_t mcp26_fb_i32(const mcp26_fb_table *table, uint32_t slot, int32_t otherwise);
uint8_t mcp26_fb_u8(const mcp26_fb_table *table, uint32_t slot, uint8_t otherwise);
float mcp26_fb_float(const mcp26_fb_table *table, uint32_t slot, float otherwise);

/* A NUL-terminated string inside the buffer; `otherwise` where left out. */
const char *mcp26_fb_string(const mcp26_fb_table *table, uint32_t slot, const char *otherwise);

/* A vector; empty where left out. */
mcp26_fb_vector mcp26_fb_vector_of(const mcp26_fb_table *table, uint32_t slot, uint32_t element_size);

/* Element i of a vector, i < count: raw bytes, a table, a string. */
const uint8_t *mcp26_fb_element(const mcp26_fb_vector *vector, uint32_t i);
mcp26_fb_table mcp26_fb_element_table(const mcp26_fb_vector *vector, uint32_t i);
const char *mcp26_fb_element_string(const mcp26_fb_vector *vector, uint32_t i);

/* Little-endian numbers at any alignment. */
uint16_t mcp26_read_u16(const uint8_t *bytes);
uint32_t mcp26_read_u32(const uint8_t *bytes);
uint64_t mcp26_read_u64(const uint8_t *bytes);

#endif
