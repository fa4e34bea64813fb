#include "container.h"

#include "checksum.h"
#include "fb.h"
#include "platform.h"
#include "status.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_SIZE = 64, ENTRY_SIZE = 32, MAX_SECTIONS = 65535 };

static const struct {
    char name[10];
    uint32_t alignment;
} KINDS[] = {
    [MCP26_SECTION_META] = {"META", 8},         [MCP26_SECTION_CODE] = {"CODE", 65536},
    [MCP26_SECTION_SHARD] = {"SHARD", 65536},   [MCP26_SECTION_GOLDEN] = {"GOLDEN", 64},
    [MCP26_SECTION_ENGINE] = {"ENGINE", 65536}, [MCP26_SECTION_SIGNATURE] = {"SIGNATURE", 8},
};

/* The kind's name and alignment; of one that this runtime does not know, none. */
static const char *kind_name(uint32_t kind) {
    return kind - 1 < MCP26_SECTION_SIGNATURE ? KINDS[kind].name : "unknown";
}
static uint32_t kind_alignment(uint32_t kind) { return kind - 1 < MCP26_SECTION_SIGNATURE ? KINDS[kind].alignment : 1; }

mcp26_section mcp26_container_section(const mcp26_container *container, uint32_t i) {
    const uint8_t *entry = container->table + (size_t)i * ENTRY_SIZE;
    return (mcp26_section){mcp26_read_u32(entry), mcp26_read_u32(entry + 4), mcp26_read_u64(entry + 8),
                           mcp26_read_u64(entry + 16)};
}

/* A header of another major version keeps magic, versions and checksum where they are, so that this can tell. */
static mcp26_status read_header(mcp26_container *container, mcp26_error *error) {
    const uint8_t *header = container->bytes;
    uint64_t present = container->size < 8 ? container->size : 8;
    if (present == 0 || memcmp(header, "MCP26BIN", (size_t)present) != 0) {
        return mcp26_fail(error, MCP26_ERR_NOT_ARTIFACT, "not an mcp26 artifact: it does not start with MCP26BIN");
    }
    if (container->size < HEADER_SIZE) {
        return mcp26_fail(error, MCP26_ERR_TRUNCATED, "truncated: %" PRIu64 " bytes, the header alone has 64",
                          container->size);
    }
    if (mcp26_crc32c(header, 60) != mcp26_read_u32(header + 60)) {
        return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "the header is damaged (CRC-32C)");
    }
    container->format_major = mcp26_read_u16(header + 8);
    container->format_minor = mcp26_read_u16(header + 10);
    container->needs_major = mcp26_read_u16(header + 12);
    container->needs_minor = mcp26_read_u16(header + 14);
    if (container->format_major != MCP26_FORMAT_MAJOR) {
        return mcp26_fail(error, MCP26_ERR_FORMAT_VERSION,
                          "format version %u.%u; this runtime (%d.%d) reads version %d: compile the model again with "
                          "the mcpc release that this runtime came with, or update the runtime",
                          container->format_major, container->format_minor, MCP26_VERSION_MAJOR, MCP26_VERSION_MINOR,
                          MCP26_FORMAT_MAJOR);
    }
    if (container->needs_major > MCP26_VERSION_MAJOR ||
        (container->needs_major == MCP26_VERSION_MAJOR && container->needs_minor > MCP26_VERSION_MINOR)) {
        return mcp26_fail(error, MCP26_ERR_RUNTIME_VERSION,
                          "needs runtime %u.%u or newer, this one is %d.%d: update the runtime", container->needs_major,
                          container->needs_minor, MCP26_VERSION_MAJOR, MCP26_VERSION_MINOR);
    }
    uint64_t stated = mcp26_read_u64(header + 16);
    if (stated != container->size) {
        return mcp26_fail(error, MCP26_ERR_TRUNCATED,
                          "truncated or with trailing bytes: %" PRIu64 " bytes, the header states %" PRIu64,
                          container->size, stated);
    }
    return MCP26_OK;
}

static mcp26_status read_table(mcp26_container *container, mcp26_error *error) {
    uint64_t offset = mcp26_read_u64(container->bytes + 24);
    uint32_t count = mcp26_read_u32(container->bytes + 32);
    uint64_t bytes = (uint64_t)count * ENTRY_SIZE;
    if (count < 1 || count > MAX_SECTIONS || offset % 8 != 0 || offset < HEADER_SIZE || offset > container->size ||
        bytes > container->size - offset) {
        return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "the section table does not lie within the file");
    }
    container->table = container->bytes + offset;
    container->section_count = count;
    if (mcp26_crc32c(container->table, bytes) != mcp26_read_u32(container->bytes + 36)) {
        return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "the section table is damaged (CRC-32C)");
    }
    return MCP26_OK;
}

typedef struct {
    uint64_t start, end;
} extent;

static int by_start(const void *left, const void *right) {
    const extent *a = left, *b = right;
    return a->start != b->start ? (a->start < b->start ? -1 : 1) : (a->end > b->end) - (a->end < b->end);
}

/* Whether two of the header, the table and the sections share a byte; -1: no memory to find out. */
static int overlapping(const mcp26_container *container) {
    size_t count = container->section_count + (size_t)2;
    extent *extents = mcp26_os_allocate(count * sizeof *extents);
    if (extents == NULL) return -1;
    uint64_t table = (uint64_t)(container->table - container->bytes);
    extents[0] = (extent){0, HEADER_SIZE};
    extents[1] = (extent){table, table + (uint64_t)container->section_count * ENTRY_SIZE};
    for (uint32_t i = 0; i < container->section_count; i++) {
        mcp26_section section = mcp26_container_section(container, i);
        extents[i + 2] = (extent){section.offset, section.offset + section.size};
    }
    qsort(extents, count, sizeof *extents, by_start);
    int found = 0;
    for (size_t i = 1; i < count; i++) found |= extents[i].start < extents[i - 1].end;
    mcp26_os_free(extents, count * sizeof *extents);
    return found;
}

static mcp26_status check_sections(mcp26_container *container, mcp26_error *error) {
    uint32_t metas = 0;
    for (uint32_t i = 0; i < container->section_count; i++) {
        mcp26_section section = mcp26_container_section(container, i);
        if (section.offset > container->size || section.size > container->size - section.offset) {
            return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "section %u (%s) reaches beyond the file", i,
                              kind_name(section.kind));
        }
        if (section.offset % kind_alignment(section.kind) != 0) {
            return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "section %u (%s) is not aligned to %u bytes", i,
                              kind_name(section.kind), kind_alignment(section.kind));
        }
        if (section.kind == MCP26_SECTION_META) {
            container->meta = i;
            metas++;
        }
    }
    if (metas != 1) return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "%u META sections, there must be one", metas);
    int overlap = overlapping(container);
    if (overlap < 0) return mcp26_fail(error, MCP26_ERR_MEMORY, "no memory to check the section table");
    if (overlap > 0) return mcp26_fail(error, MCP26_ERR_CORRUPT_HEADER, "sections overlap");
    return MCP26_OK;
}

/* After the overlap check, so that no byte is summed twice, however many sections claim it. */
static mcp26_status check_sums(const mcp26_container *container, mcp26_error *error) {
    for (uint32_t i = 0; i < container->section_count; i++) {
        mcp26_section section = mcp26_container_section(container, i);
        if (section.kind != MCP26_SECTION_META && section.kind != MCP26_SECTION_CODE) continue;
        if (mcp26_crc32c(container->bytes + section.offset, section.size) == section.crc) continue;
        return mcp26_fail(error, section.kind == MCP26_SECTION_META ? MCP26_ERR_CORRUPT_META : MCP26_ERR_CORRUPT_CODE,
                          "section %u (%s) is damaged (CRC-32C)", i, kind_name(section.kind));
    }
    return MCP26_OK;
}

mcp26_status mcp26_container_open(mcp26_container *container, const uint8_t *bytes, uint64_t size, mcp26_error *error) {
    *container = (mcp26_container){.bytes = bytes, .size = size};
    mcp26_status status = read_header(container, error);
    if (status == MCP26_OK) status = read_table(container, error);
    if (status == MCP26_OK) status = check_sections(container, error);
    if (status == MCP26_OK) status = check_sums(container, error);
    return status;
}
