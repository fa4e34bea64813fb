#include "fb.h"

#include <stddef.h>
#include <string.h>

uint16_t mcp26_read_u16(const uint8_t *bytes) { return (uint16_t)(bytes[0] | bytes[1] << 8); }

uint32_t mcp26_read_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint64_t mcp26_read_u64(const uint8_t *bytes) {
    return (uint64_t)mcp26_read_u32(bytes) | (uint64_t)mcp26_read_u32(bytes + 4) << 32;
}

/* Whether [at, at + bytes) lies in the buffer; if not, the buffer is at fault. */
static int holds(mcp26_fb *fb, uint64_t at, uint64_t bytes) {
    if (fb->fault != NULL) return 0;
    if (at <= fb->size && bytes <= fb->size - at) return 1;
    fb->fault = fb->where;
    return 0;
}

/* The position that the offset stored at `at` leads to; 0 when at fault. */
static uint32_t follow(mcp26_fb *fb, uint32_t at) {
    if (!holds(fb, at, 4)) return 0;
    uint64_t target = (uint64_t)at + mcp26_read_u32(fb->bytes + at);
    if (target == at || !holds(fb, target, 4)) {
        fb->fault = fb->where;
        return 0;
    }
    return (uint32_t)target;
}

static mcp26_fb_table table_at(mcp26_fb *fb, uint32_t at) {
    const mcp26_fb_table none = {fb, 0, 0, 0, 0};
    if (at == 0 || !holds(fb, at, 4)) return none;
    int64_t vtable = (int64_t)at - (int32_t)mcp26_read_u32(fb->bytes + at);
    if (vtable < 0 || !holds(fb, (uint64_t)vtable, 4)) {
        fb->fault = fb->where;
        return none;
    }
    mcp26_fb_table table = {fb, at, (uint32_t)vtable, mcp26_read_u16(fb->bytes + vtable),
                            mcp26_read_u16(fb->bytes + vtable + 2)};
    if (table.vtable_size < 4 || table.size < 4 || !holds(fb, table.vtable, table.vtable_size) ||
        !holds(fb, at, table.size)) {
        fb->fault = fb->where;
        return none;
    }
    return table;
}

mcp26_fb_table mcp26_fb_root(mcp26_fb *fb, const uint8_t *bytes, uint64_t size, const char *identifier) {
    *fb = (mcp26_fb){bytes, 0, 0, NULL, "root"};
    if (size < 8 || size > INT32_MAX || memcmp(bytes + 4, identifier, 4) != 0) {
        fb->fault = "identifier";
        return (mcp26_fb_table){fb, 0, 0, 0, 0};
    }
    fb->size = (uint32_t)size;
    fb->budget = 2 * size;
    return table_at(fb, follow(fb, 0));
}

/* Where a field of `bytes` bytes lies; 0 where it is left out or at fault. */
static uint32_t field(const mcp26_fb_table *table, uint32_t slot, uint32_t bytes) {
    uint32_t entry = 4 + 2 * slot;
    if (table->at == 0 || table->fb->fault != NULL || entry + 2 > table->vtable_size) return 0;
    uint32_t offset = mcp26_read_u16(table->fb->bytes + table->vtable + entry);
    if (offset == 0) return 0;
    if (offset < 4 || offset + bytes > table->size) {
        table->fb->fault = table->fb->where;
        return 0;
    }
    return table->at + offset;
}

uint64_t mcp26_fb_u64(const mcp26_fb_table *table, uint32_t slot, uint64_t otherwise) {
    uint32_t at = field(table, slot, 8);
    return at != 0 ? mcp26_read_u64(table->fb->bytes + at) : otherwise;
}

int64_t mcp26_fb_i64(const mcp26_fb_table *table, uint32_t slot, int64_t otherwise) {
    return (int64_t)mcp26_fb_u64(table, slot, (uint64_t)otherwise);
}

uint32_t mcp26_fb_u32(const mcp26_fb_table *table, uint32_t slot, uint32_t otherwise) {
    uint32_t at = field(table, slot, 4);
    return at != 0 ? mcp26_read_u32(table->fb->bytes + at) : otherwise;
}

int32_t mcp26_fb_i32(const mcp26_fb_table *table, uint32_t slot, int32_t otherwise) {
    return (int32_t)mcp26_fb_u32(table, slot, (uint32_t)otherwise);
}

uint8_t mcp26_fb_u8(const mcp26_fb_table *table, uint32_t slot, uint8_t otherwise) {
    uint32_t at = field(table, slot, 1);
    return at != 0 ? table->fb->bytes[at] : otherwise;
}

float mcp26_fb_float(const mcp26_fb_table *table, uint32_t slot, float otherwise) {
    uint32_t at = field(table, slot, 4);
    if (at == 0) return otherwise;
    uint32_t bits = mcp26_read_u32(table->fb->bytes + at);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static const char *string_at(mcp26_fb *fb, uint32_t at) {
    if (at == 0 || !holds(fb, at, 4)) return "";
    uint64_t length = mcp26_read_u32(fb->bytes + at);
    if (!holds(fb, (uint64_t)at + 4, length + 1)) return "";
    if (fb->bytes[at + 4 + length] != 0) {
        fb->fault = fb->where;
        return "";
    }
    return (const char *)fb->bytes + at + 4;
}

const char *mcp26_fb_string(const mcp26_fb_table *table, uint32_t slot, const char *otherwise) {
    uint32_t at = field(table, slot, 4);
    return at != 0 ? string_at(table->fb, follow(table->fb, at)) : otherwise;
}

mcp26_fb_vector mcp26_fb_vector_of(const mcp26_fb_table *table, uint32_t slot, uint32_t element_size) {
    mcp26_fb *fb = table->fb;
    const mcp26_fb_vector empty = {fb, 0, 0, element_size};
    uint32_t at = field(table, slot, 4);
    if (at == 0 || (at = follow(fb, at)) == 0) return empty;
    uint32_t count = mcp26_read_u32(fb->bytes + at);
    uint64_t bytes = (uint64_t)count * element_size;
    if (!holds(fb, (uint64_t)at + 4, bytes)) return empty;
    if (bytes > fb->budget) {
        fb->fault = fb->where;
        return empty;
    }
    fb->budget -= bytes;
    return (mcp26_fb_vector){fb, at + 4, count, element_size};
}

const uint8_t *mcp26_fb_element(const mcp26_fb_vector *vector, uint32_t i) {
    return vector->fb->bytes + vector->at + (size_t)i * vector->element_size;
}

mcp26_fb_table mcp26_fb_element_table(const mcp26_fb_vector *vector, uint32_t i) {
    return table_at(vector->fb, follow(vector->fb, vector->at + 4 * i));
}

const char *mcp26_fb_element_string(const mcp26_fb_vector *vector, uint32_t i) {
    return string_at(vector->fb, follow(vector->fb, vector->at + 4 * i));
}
