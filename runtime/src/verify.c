/* Checks contents against the SHA-256 in the metadata. META itself carries the hashes: a signature covers it. */
#include "model.h"

#include "checksum.h"
#include "fb.h"
#include "schema_slots.h"
#include "status.h"

#include <string.h>

static int matches(const uint8_t *bytes, uint64_t size, const uint8_t *sha256) {
    uint8_t digest[32];
    mcp26_sha256(bytes, size, digest);
    return memcmp(digest, sha256, sizeof digest) == 0;
}

mcp26_status mcp26_model_verify_shard(mcp26_model *model, uint32_t shard, mcp26_error *error) {
    mcp26_model_shard *checked = &model->shards[shard];
    if (atomic_load_explicit(&checked->verified, memory_order_acquire) != 0) return MCP26_OK;
    if (!matches(checked->base, checked->size, checked->sha256)) {
        return mcp26_fail(error, MCP26_ERR_CORRUPT_DATA, "weight shard %u (section %u) is damaged (SHA-256)", shard,
                          checked->section);
    }
    atomic_store_explicit(&checked->verified, 1, memory_order_release);
    return MCP26_OK;
}

mcp26_status mcp26_model_verify_sections(mcp26_model *model, mcp26_error *error) {
    const mcp26_container *container = &model->container;
    uint8_t *verified = mcp26_model_take(model, container->section_count, 1);
    if (verified == NULL) return mcp26_fail(error, MCP26_ERR_MEMORY, "no memory to verify sections");
    mcp26_fb fb;
    mcp26_fb_table meta = mcp26_fb_root(&fb, model->info.meta, model->info.meta_bytes, MCP26_SCHEMA_IDENTIFIER);
    fb.where = "Meta.sections";
    mcp26_fb_vector hashes = mcp26_fb_vector_of(&meta, Meta_sections, 4);
    for (uint32_t i = 0; i < hashes.count; i++) {
        mcp26_fb_table entry = mcp26_fb_element_table(&hashes, i);
        uint32_t index = mcp26_fb_u32(&entry, SectionHash_section, 0);
        mcp26_fb_vector sha256 = mcp26_fb_vector_of(&entry, SectionHash_sha256, 1);
        if (fb.fault != NULL || index >= container->section_count || sha256.count != 32 || verified[index]) {
            return mcp26_fail(error, MCP26_ERR_CORRUPT_META, "the metadata is malformed at Meta.sections");
        }
        mcp26_section section = mcp26_container_section(container, index);
        if (!matches(container->bytes + section.offset, section.size, mcp26_fb_element(&sha256, 0))) {
            return mcp26_fail(error, MCP26_ERR_CORRUPT_DATA, "section %u is damaged (SHA-256)", index);
        }
        verified[index] = 1;
    }
    for (uint32_t i = 0; i < container->section_count; i++) {
        uint32_t kind = mcp26_container_section(container, i).kind;
        if (verified[i] || kind == MCP26_SECTION_META || kind >= MCP26_SECTION_SIGNATURE) continue;
        return mcp26_fail(error, MCP26_ERR_CORRUPT_DATA, "section %u has no SHA-256 in the metadata", i);
    }
    return MCP26_OK;
}
