/* Opening artifacts: sound ones, damaged ones, foreign ones. */
#include "harness.h"

#include "checksum.h"
#include "container.h"
#include "fb.h"

static void put_u32(uint8_t *bytes, uint32_t value) {
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

/* Make header and table checksums right again after a change. */
static void seal(uint8_t *bytes) {
    const uint8_t *table = bytes + mcp26_read_u64(bytes + 24);
    put_u32(bytes + 36, mcp26_crc32c(table, (uint64_t)mcp26_read_u32(bytes + 32) * 32));
    put_u32(bytes + 60, mcp26_crc32c(bytes, 60));
}

/* The status that open gives; the message must not be empty where it fails. */
static mcp26_status open_status(const uint8_t *bytes, size_t size, uint32_t verify) {
    mcp26_model *model;
    mcp26_error error;
    mcp26_model_options options = {sizeof options, verify};
    mcp26_status status = mcp26_model_open_memory(bytes, size, &options, &model, &error);
    CHECK((status == MCP26_OK) == (model != NULL) && (status == MCP26_OK) == (error.message[0] == 0));
    CHECK(error.status == (int32_t)status);
    mcp26_model_close(model);
    return status;
}

static const uint8_t *find_section(const uint8_t *bytes, uint32_t kind, mcp26_section *section) {
    mcp26_container container;
    CHECK(mcp26_container_open(&container, bytes, mcp26_read_u64(bytes + 16), NULL) == MCP26_OK);
    for (uint32_t i = 0; i < container.section_count; i++) {
        *section = mcp26_container_section(&container, i);
        if (section->kind == kind) return container.table + (size_t)i * 32;
    }
    CHECK(0 && "the section is there");
    return NULL;
}

static void test_checksums(const char *folder) {
    (void)folder;
    const uint8_t *digits = (const uint8_t *)"123456789", *text = (const uint8_t *)"abc";
    CHECK(mcp26_crc32c(digits, 9) == 0xe3069283); /* the check value of CRC-32C */
    uint8_t zeros[32] = {0}, bytes[257], digest[32];
    CHECK(mcp26_crc32c(zeros, 32) == 0x8a9136aa); /* RFC 3720 B.4 */
    CHECK(mcp26_crc32c(zeros, 0) == 0);
    static const uint8_t ABC[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                    0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                    0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    mcp26_sha256(text, 3, digest);
    CHECK(memcmp(digest, ABC, 32) == 0); /* FIPS 180-4 */
    /* Word-wise and byte-wise ways agree at every length and alignment: extending by a byte is linear. */
    for (int i = 0; i < 257; i++) bytes[i] = (uint8_t)(i * 37);
    for (int start = 0; start < 8; start++) {
        for (int length = 0; length < 240; length++) {
            uint32_t crc = 0xffffffff;
            for (int i = 0; i < length; i++) {
                crc ^= bytes[start + i];
                for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
            }
            CHECK(mcp26_crc32c(bytes + start, (uint64_t)length) == (uint32_t)~crc);
        }
    }
}

static void test_describes(const char *folder) {
    mcp26_model *model = open_model(folder, "demo");
    const mcp26_model_info *info = mcp26_model_get_info(model);
    CHECK(strcmp(info->name, "demo") == 0 && strcmp(info->target, "test") == 0);
    CHECK(info->input_count == 2 && info->output_count == 3 && info->symbol_count == 2 && info->step_count == 4);
    CHECK(info->shard_count == 4 && info->golden_count == 1 && info->weights_bytes == 800000 && !info->unbounded);
    CHECK(info->code_mapped == 1 && strcmp(info->variant, info->isa) == 0);
    CHECK(info->format_major == 1 && memcmp((const uint8_t *)info->meta + 4, "MC26", 4) == 0);
    const mcp26_tensor_info *x = mcp26_model_input(model, 0);
    CHECK(strcmp(x->name, "x") == 0 && x->dtype == MCP26_FLOAT32 && x->rank == 2 && x->max_bytes == 128);
    CHECK(x->dims[0] == -1 && x->dims[1] == 4 && x->dim_symbols[0] == 0 && x->dim_symbols[1] == -1);
    CHECK(strcmp(x->dim_texts[0], "N") == 0 && x->dim_texts[1] == NULL);
    CHECK(strcmp(mcp26_model_symbol(model, 1)->name, "K") == 0 && mcp26_model_symbol(model, 1)->max == 16);
    const mcp26_step_info *step = mcp26_model_step(model, 3);
    CHECK(strcmp(step->name, "count") == 0 && step->shard_count == 1 && step->shards[0] == 3);
    CHECK(mcp26_model_input(model, 2) == NULL && mcp26_model_output(model, 3) == NULL);
    CHECK(mcp26_model_symbol(model, 2) == NULL && mcp26_model_step(model, 4) == NULL);
    CHECK(mcp26_model_golden(model, 1) == NULL && mcp26_model_golden_input(model, 0, 2) == NULL);
    uint32_t kind;
    uint64_t bytes;
    CHECK(mcp26_model_section(model, info->section_count, &kind, &bytes) == NULL);
    for (uint32_t i = 0; i < info->section_count; i++) {
        const void *data = mcp26_model_section(model, i, &kind, &bytes);
        if (kind == MCP26_SECTION_META) CHECK(data == info->meta && bytes == info->meta_bytes);
    }
    mcp26_model_close(model);
    mcp26_model_close(NULL);
}

static void test_no_artifact(const char *folder) {
    mcp26_model *model;
    mcp26_error error;
    char path[4096];
    snprintf(path, sizeof path, "%s/missing.mcp26bin", folder);
    CHECK_STATUS(MCP26_ERR_IO, mcp26_model_open(path, NULL, &model, &error), error.message);
    CHECK(model == NULL && strstr(error.message, path) != NULL);
    CHECK_STATUS(MCP26_ERR_IO, mcp26_model_open(folder, NULL, &model, &error), error.message);
    CHECK_STATUS(MCP26_ERR_IO, mcp26_model_open("/dev/null", NULL, &model, NULL), "");
    CHECK_STATUS(MCP26_ERR_IO, mcp26_model_open(NULL, NULL, &model, NULL), "");
    CHECK_STATUS(MCP26_ERR_ARGUMENT, mcp26_model_open(path, NULL, NULL, NULL), "");
    CHECK_STATUS(MCP26_ERR_ARGUMENT, mcp26_model_open_memory(NULL, 0, NULL, &model, NULL), "");
    snprintf(path, sizeof path, "%s/empty", folder);
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fclose(file) == 0);
    CHECK_STATUS(MCP26_ERR_NOT_ARTIFACT, mcp26_model_open(path, NULL, &model, &error), error.message);
    _Alignas(64) uint8_t text[128] = "#!/bin/sh\n";
    CHECK_STATUS(MCP26_ERR_NOT_ARTIFACT, open_status(text, sizeof text, 0), "");
    CHECK_STATUS(MCP26_ERR_ALIGNMENT, mcp26_model_open_memory(text + 1, 100, NULL, &model, NULL), "");
    mcp26_model_options options = {.struct_size = 4};
    CHECK_STATUS(MCP26_ERR_ARGUMENT, mcp26_model_open(path, &options, &model, NULL), "");
}

static void test_truncated(const char *folder) {
    size_t size;
    uint8_t *bytes = read_file(artifact(folder, "demo"), &size);
    for (size_t cut = 8; cut < size; cut += cut < 4096 ? 1 : 9973) {
        CHECK_STATUS(MCP26_ERR_TRUNCATED, open_status(bytes, cut, 0), "");
    }
    CHECK_STATUS(MCP26_ERR_TRUNCATED, open_status(bytes, size + 1, 0), "");
    CHECK_STATUS(MCP26_OK, open_status(bytes, size, 0), "");
    free(bytes);
}

/* Every byte of header, table, META and CODE matters; each part has its own status. */
static void test_corrupt(const char *folder) {
    size_t size;
    uint8_t *bytes = read_file(artifact(folder, "demo"), &size);
    mcp26_section meta, code;
    find_section(bytes, MCP26_SECTION_META, &meta);
    find_section(bytes, MCP26_SECTION_CODE, &code);
    const struct {
        uint64_t start, end;
        mcp26_status status;
    } parts[] = {
        {0, 8, MCP26_ERR_NOT_ARTIFACT},
        {8, 64, MCP26_ERR_CORRUPT_HEADER},
        {64, 64 + 32 * (uint64_t)mcp26_read_u32(bytes + 32), MCP26_ERR_CORRUPT_HEADER},
        {meta.offset, meta.offset + meta.size, MCP26_ERR_CORRUPT_META},
        {code.offset, code.offset + code.size, MCP26_ERR_CORRUPT_CODE},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (uint64_t at = parts[i].start; at < parts[i].end; at++) {
            uint8_t flip = (uint8_t)(1 << at % 8);
            bytes[at] ^= flip;
            CHECK_STATUS(parts[i].status, open_status(bytes, size, 0), "");
            bytes[at] ^= flip;
        }
    }
    free(bytes);
}

static void test_versions(const char *folder) {
    size_t size;
    uint8_t *bytes = read_file(artifact(folder, "demo"), &size);
    bytes[10] = 200; /* format minor: any is read */
    seal(bytes);
    CHECK_STATUS(MCP26_OK, open_status(bytes, size, 0), "");
    bytes[8] = 2; /* format major */
    seal(bytes);
    CHECK_STATUS(MCP26_ERR_FORMAT_VERSION, open_status(bytes, size, 0), "");
    bytes[8] = 1;
    bytes[12] = MCP26_VERSION_MAJOR; /* runtime needed */
    bytes[14] = MCP26_VERSION_MINOR + 1;
    seal(bytes);
    CHECK_STATUS(MCP26_ERR_RUNTIME_VERSION, open_status(bytes, size, 0), "");
    bytes[12] = MCP26_VERSION_MAJOR + 1;
    bytes[14] = 0;
    seal(bytes);
    CHECK_STATUS(MCP26_ERR_RUNTIME_VERSION, open_status(bytes, size, 0), "");
    free(bytes);
    CHECK(mcp26_version() == (MCP26_VERSION_MAJOR << 16 | MCP26_VERSION_MINOR));
}

/* Tables with right checksums and impossible contents. */
static void test_impossible_table(const char *folder) {
    size_t size;
    uint8_t *bytes = read_file(artifact(folder, "demo"), &size), *copy = aligned_alloc(64, (size + 127) / 64 * 64);
    CHECK(copy != NULL);
    mcp26_section shard;
    size_t entry = (size_t)(find_section(bytes, MCP26_SECTION_SHARD, &shard) - bytes);
    const struct {
        size_t at;
        uint32_t value;
    } changes[] = {
        {entry + 12, 0xffffffff},                    /* offset beyond the file */
        {entry + 20, 0xffffffff},                    /* size beyond the file */
        {entry + 8, (uint32_t)shard.offset + 64},    /* misaligned */
        {entry + 8, 0},                              /* over the header */
        {entry + 8, (uint32_t)shard.offset + 65536}, /* over the next section */
        {entry, MCP26_SECTION_META},                 /* a second META */
        {32, 0},                                     /* no sections */
        {32, 65536},                                 /* too many */
        {24, 60},                                    /* a table over the header */
        {24, (uint32_t)size - 8},                    /* a table beyond the file */
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        memcpy(copy, bytes, size);
        put_u32(copy + changes[i].at, changes[i].value);
        if (changes[i].at == entry || changes[i].at > 36) seal(copy);
        else put_u32(copy + 60, mcp26_crc32c(copy, 60));
        CHECK_STATUS(MCP26_ERR_CORRUPT_HEADER, open_status(copy, size, 0), "");
    }
    memcpy(copy, bytes, size);
    put_u32(copy + entry, 1000); /* a kind that is not known is skipped; META then names a shard that is none */
    seal(copy);
    CHECK_STATUS(MCP26_ERR_CORRUPT_META, open_status(copy, size, 0), "");
    free(copy);
    free(bytes);
}

static void test_verify(const char *folder) {
    size_t size;
    uint8_t *bytes = read_file(artifact(folder, "demo"), &size);
    mcp26_section shard;
    find_section(bytes, MCP26_SECTION_SHARD, &shard);
    CHECK_STATUS(MCP26_OK, open_status(bytes, size, MCP26_VERIFY_FULL), "");
    bytes[shard.offset + shard.size - 1] ^= 1;
    CHECK_STATUS(MCP26_OK, open_status(bytes, size, MCP26_VERIFY_CHECKSUMS), "");
    CHECK_STATUS(MCP26_ERR_CORRUPT_DATA, open_status(bytes, size, MCP26_VERIFY_FULL), "");
    CHECK_STATUS(MCP26_ERR_ARGUMENT, open_status(bytes, size, 3), "");

    mcp26_model *model;
    mcp26_model_options options = {sizeof options, MCP26_VERIFY_LAZY};
    CHECK_STATUS(MCP26_OK, mcp26_model_open_memory(bytes, size, &options, &model, NULL), "");
    CHECK(mcp26_model_get_info(model)->code_mapped == 0);
    mcp26_session *session = open_session(model, 1);
    CHECK_STATUS(MCP26_ERR_CORRUPT_DATA, mcp26_session_run_golden(session, 0), "");
    CHECK(strstr(mcp26_session_message(session), "shard 0") != NULL);
    bytes[shard.offset + shard.size - 1] ^= 1;
    check_golden(session, model);
    mcp26_session_close(session);
    mcp26_model_close(model);
    free(bytes);
}

static void test_foreign_processor(const char *folder) {
    mcp26_model *model;
    mcp26_error error;
    CHECK_STATUS(MCP26_ERR_CPU, mcp26_model_open(artifact(folder, "foreign"), NULL, &model, &error), error.message);
    CHECK(model == NULL && strstr(error.message, "needs warp drive") != NULL);
    CHECK(mcp26_cpu_has("warp") == 0 && mcp26_cpu_has(NULL) == 0);
#if defined(__x86_64__)
    CHECK(mcp26_cpu_has("sse2") == 1);
#elif defined(__aarch64__)
    CHECK(mcp26_cpu_has("asimd") == 1);
#endif
}

static void test_statuses(const char *folder) {
    (void)folder;
    for (int status = MCP26_ERR_NO_CODE; status <= 0; status++) {
        CHECK(strcmp(mcp26_strerror((mcp26_status)status), "unknown status") != 0);
    }
    CHECK(strcmp(mcp26_strerror((mcp26_status)1), "unknown status") == 0);
    CHECK(mcp26_dtype_bits(MCP26_INT4) == 8 && mcp26_dtype_bits(8) == 0 && mcp26_dtype_bits(1000) == 0);
    CHECK(strcmp(mcp26_dtype_name(MCP26_BFLOAT16), "bfloat16") == 0);
}

const test open_tests[] = {
    {"checksums", test_checksums},
    {"describes", test_describes},
    {"no_artifact", test_no_artifact},
    {"truncated", test_truncated},
    {"corrupt", test_corrupt},
    {"versions", test_versions},
    {"impossible_table", test_impossible_table},
    {"verify", test_verify},
    {"foreign_processor", test_foreign_processor},
    {"statuses", test_statuses},
    {0},
};
