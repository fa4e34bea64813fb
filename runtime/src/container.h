/* container.h: the file's outer structure, as docs/format.md has it: header, section table, sections. */
#ifndef MCP26_CONTAINER_H
#define MCP26_CONTAINER_H

#include "mcp26.h"

typedef enum {
    MCP26_SECTION_META = 1,
    MCP26_SECTION_CODE = 2,
    MCP26_SECTION_SHARD = 3,
    MCP26_SECTION_GOLDEN = 4,
    MCP26_SECTION_ENGINE = 5,
    MCP26_SECTION_SIGNATURE = 6
} mcp26_section_kind;

typedef struct {
    uint32_t kind, crc;
    uint64_t offset, size;
} mcp26_section;

typedef struct {
    const uint8_t *bytes; /* the file */
    uint64_t size;
    const uint8_t *table;
    uint32_t section_count;
    uint32_t meta; /* index of the META section */
    uint32_t format_major, format_minor;
    uint32_t needs_major, needs_minor;
} mcp26_container;

/* Check and take apart a file: magic, checksums of header, table, META and CODE, versions, bounds, alignment, overlaps.
 */
mcp26_status mcp26_container_open(mcp26_container *container, const uint8_t *bytes, uint64_t size, mcp26_error *error);

/* Section i < section_count; within the file once the container is open. */
mcp26_section mcp26_container_section(const mcp26_container *container, uint32_t i);

#endif
