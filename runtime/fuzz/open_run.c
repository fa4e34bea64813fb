/* Fuzz target: open an artifact from memory, make a session, bind, run.
 *
 * A fuzzer alone would not get past the checksums, and must not execute code it made up. So each input is patched
 * first: code sections become a stub that does nothing, checksums become right. Compiled code trusts the metadata,
 * which is hostile here, so the stub reads nothing of it.
 *
 * With libFuzzer: clang -fsanitize=fuzzer,address,undefined -Iinclude -Isrc fuzz/open_run.c and all of src, -pthread.
 * Without: gcc -fsanitize=address,undefined, and fuzz/driver.c beside it.
 */
#include "mcp26.h"

#include "checksum.h"
#include "container.h"
#include "fb.h"
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* `step + 1` as entry, and as plan a positive number, which means success as well: machine code of one function. */
#if defined(__x86_64__)
static const uint8_t STUB[] = {0x8d, 0x46, 0x01, 0xc3}; /* lea eax, [rsi + 1]; ret */
#elif defined(__aarch64__)
static const uint8_t STUB[] = {0x20, 0x04, 0x00, 0x11, 0xc0, 0x03, 0x5f, 0xd6}; /* add w0, w1, #1; ret */
#else
#error "no stub for this processor"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_u32(uint8_t *bytes, uint32_t value) {
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> 8 * i);
}

/* Fill a section with stubs; any multiple of the stub's length is an entry. */
static void fill_stubs(uint8_t *bytes, uint64_t size) {
    for (uint64_t i = 0; i + sizeof STUB <= size; i += sizeof STUB) memcpy(bytes + i, STUB, sizeof STUB);
}

/* Replace code and make all checksums right, as far as the structure can be followed. */
static void patch(uint8_t *bytes, uint64_t size) {
    if (size < 64) return;
    uint64_t offset = mcp26_read_u64(bytes + 24);
    uint32_t count = mcp26_read_u32(bytes + 32);
    for (int i = 0; i < 8; i++) bytes[16 + i] = (uint8_t)(size >> 8 * i);
    if (offset <= size && count <= (size - offset) / 32) {
        uint64_t left = 4 * size; /* sections may overlap here: keep the work bounded */
        for (uint32_t i = 0; i < count; i++) {
            uint8_t *entry = bytes + offset + (uint64_t)i * 32;
            uint32_t kind = mcp26_read_u32(entry);
            uint64_t start = mcp26_read_u64(entry + 8), length = mcp26_read_u64(entry + 16);
            if (start > size || length > size - start || length > left) continue;
            left -= length;
            if (kind == MCP26_SECTION_CODE && start >= 64) fill_stubs(bytes + start, length);
            if (kind == MCP26_SECTION_CODE || kind == MCP26_SECTION_META) {
                put_u32(entry + 4, mcp26_crc32c(bytes + start, length));
            }
        }
        put_u32(bytes + 36, mcp26_crc32c(bytes + offset, (uint64_t)count * 32));
    }
    put_u32(bytes + 60, mcp26_crc32c(bytes, 60));
}

/* Whether an entry lies at the start of a stub, whole inside the section, and the section holds nothing but stubs. */
static int is_stub(const mcp26_model *model, uint64_t entry) {
    return entry % sizeof STUB == 0 && entry + sizeof STUB <= model->code.size &&
           memcmp(model->code.bytes + entry, STUB, sizeof STUB) == 0;
}

static void *zeros(uint64_t bytes) { return bytes <= 1 << 20 ? calloc(bytes + 1, 1) : NULL; }

/* Shapes as declared, symbols at their least; what does not fit, or is huge, is not bound. */
static void bind_inputs(const mcp26_model *model, mcp26_session *session, void **buffers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const mcp26_tensor_info *info = mcp26_model_input(model, i);
        int64_t *shape = zeros(info->rank * sizeof(int64_t));
        uint64_t bits = mcp26_dtype_bits(info->dtype);
        for (uint32_t d = 0; shape != NULL && d < info->rank; d++) {
            const mcp26_symbol_info *symbol = mcp26_model_symbol(model, (uint32_t)info->dim_symbols[d]);
            shape[d] = symbol != NULL ? symbol->min : info->dims[d] < 0 ? 1 : info->dims[d];
            if (__builtin_mul_overflow(bits, (uint64_t)shape[d], &bits)) bits = UINT64_MAX;
        }
        uint64_t bytes = bits / 8 + (bits % 8 != 0);
        buffers[i] = zeros(bytes);
        if (shape != NULL && buffers[i] != NULL) {
            (void)mcp26_session_bind_input(session, i, info->dtype, shape, info->rank, buffers[i], bytes);
        }
        free(shape);
    }
}

/* Whether the case's inputs, which may be computed, have a size that a machine might really have. */
static int is_small(const mcp26_model *model, const mcp26_golden_case *golden) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; golden != NULL && i < golden->input_count; i++) {
        uint64_t more = mcp26_model_golden_input(model, 0, i)->bytes;
        bytes = more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more;
    }
    return golden != NULL && bytes <= 64 << 20;
}

static void use(mcp26_model *model, mcp26_error *error) {
    mcp26_session *session;
    mcp26_session_options options = {.struct_size = sizeof options, .threads = 1};
    if (mcp26_session_size(model, &options) > 64 << 20) return; /* sizes that a machine might really have */
    if (mcp26_session_create(model, &options, &session, error) != MCP26_OK) return;
    uint32_t count = mcp26_model_get_info(model)->input_count;
    void **buffers = calloc(count + 1u, sizeof *buffers);
    if (buffers == NULL) abort();
    bind_inputs(model, session, buffers, count);
    if (is_stub(model, model->entry_offset) && is_stub(model, model->plan_offset)) {
        (void)mcp26_session_run(session);
        if (is_small(model, mcp26_model_golden(model, 0)) && mcp26_session_run_golden(session, 0) == MCP26_OK) {
            for (uint32_t i = 0; i < mcp26_model_golden(model, 0)->output_count; i++) {
                (void)mcp26_session_compare_golden(session, 0, i, NULL);
            }
        }
    }
    mcp26_session_close(session);
    for (uint32_t i = 0; i < count; i++) free(buffers[i]);
    free(buffers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *bytes = aligned_alloc(64, (size + 64) / 64 * 64);
    if (bytes == NULL) abort();
    if (size > 0) memcpy(bytes, data, size);
    patch(bytes, size);
    mcp26_model *model;
    mcp26_error error;
    mcp26_model_options options = {sizeof options, MCP26_VERIFY_CHECKSUMS};
    mcp26_status status = mcp26_model_open_memory(bytes, size, &options, &model, &error);
    if ((status == MCP26_OK) != (model != NULL) || (status == MCP26_OK) != (error.message[0] == 0)) abort();
    if (model != NULL) use(model, &error);
    mcp26_model_close(model);

    options.verify = MCP26_VERIFY_FULL;
    (void)mcp26_model_open_memory(bytes, size, &options, &model, &error);
    mcp26_model_close(model);
    free(bytes);
    return 0;
}
