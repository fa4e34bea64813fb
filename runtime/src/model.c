#include "model.h"

#include "status.h"

#include <errno.h>
#include <string.h>

struct mcp26_block {
    mcp26_block *next;
    uint64_t size, used;
};

enum { BLOCK_BYTES = 64 << 10, BLOCK_ALIGNMENT = 16 };

static uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void *mcp26_model_take(mcp26_model *model, uint64_t count, uint64_t size) {
    const uint64_t header = round_up(sizeof(mcp26_block), BLOCK_ALIGNMENT);
    if (count > (UINT64_MAX >> 2) / size) return NULL;
    uint64_t bytes = round_up(count * size, BLOCK_ALIGNMENT);
    mcp26_block *block = model->blocks;
    if (block == NULL || bytes > block->size - block->used) {
        uint64_t block_size = header + bytes > BLOCK_BYTES ? header + bytes : BLOCK_BYTES;
        block = mcp26_os_allocate(block_size);
        if (block == NULL) return NULL;
        *block = (mcp26_block){model->blocks, block_size, header};
        model->blocks = block;
    }
    void *memory = (uint8_t *)block + block->used;
    block->used += bytes;
    return memory;
}

void mcp26_model_drop(mcp26_model *model) {
    if (model == NULL || atomic_fetch_sub(&model->references, 1) != 1) return;
    mcp26_os_code_close(&model->code);
    mcp26_os_file_close(&model->file);
    for (mcp26_block *block = model->blocks; block != NULL;) {
        mcp26_block *next = block->next;
        mcp26_os_free(block, block->size);
        block = next;
    }
    mcp26_os_free(model, sizeof *model);
}

static mcp26_status open_code(mcp26_model *model, uint32_t code_section, mcp26_error *error) {
    mcp26_section section = mcp26_container_section(&model->container, code_section);
    int failure = mcp26_os_code_open(&model->code, &model->file, section.offset,
                                     model->container.bytes + section.offset, section.size);
    if (failure != 0) return mcp26_fail(error, MCP26_ERR_IO, "cannot map code: %s", strerror(failure));
    const uint8_t *entry = model->code.bytes + model->entry_offset, *plan = model->code.bytes + model->plan_offset;
    memcpy(&model->entry, &entry, sizeof entry); /* ISO C has no cast from data to functions */
    memcpy(&model->plan, &plan, sizeof plan);
    model->info.code_mapped = model->code.mapped != 0;
    return MCP26_OK;
}

static mcp26_status open_contents(mcp26_model *model, const uint8_t *bytes, uint64_t size, mcp26_error *error) {
    uint32_t code_section = 0;
    mcp26_status status = mcp26_container_open(&model->container, bytes, size, error);
    if (status == MCP26_OK) status = mcp26_model_decode(model, &code_section, error);
    if (status == MCP26_OK && model->verify == MCP26_VERIFY_FULL) status = mcp26_model_verify_sections(model, error);
    if (status == MCP26_OK) status = open_code(model, code_section, error);
    return status;
}

/* A model with nothing in it yet but the options. */
static mcp26_status make(const mcp26_model_options *options, mcp26_model **model, mcp26_error *error) {
    if (model == NULL) return mcp26_fail(error, MCP26_ERR_ARGUMENT, "no place for the model");
    *model = NULL;
    if (options != NULL && (options->struct_size < sizeof *options || options->verify > MCP26_VERIFY_FULL)) {
        return mcp26_fail(error, MCP26_ERR_ARGUMENT, "invalid model options");
    }
    mcp26_model *made = mcp26_os_allocate(sizeof *made);
    if (made == NULL) return mcp26_fail(error, MCP26_ERR_MEMORY, "no memory for the model");
    atomic_init(&made->references, 1);
    made->verify = options != NULL ? options->verify : MCP26_VERIFY_CHECKSUMS;
    *model = made;
    return MCP26_OK;
}

/* Hand the model over, or take it apart again. */
static mcp26_status finish(mcp26_model **model, mcp26_status status, mcp26_error *error) {
    if (status == MCP26_OK) {
        mcp26_os_file_close_descriptor(&(*model)->file);
        mcp26_succeed(error);
    } else {
        mcp26_model_drop(*model);
        *model = NULL;
    }
    return status;
}

mcp26_status mcp26_model_open(const char *path, const mcp26_model_options *options, mcp26_model **model,
                              mcp26_error *error) {
    mcp26_status status = make(options, model, error);
    if (status != MCP26_OK) return status;
    int failure = path != NULL ? mcp26_os_file_open(&(*model)->file, path) : EINVAL;
    if (failure != 0) {
        status =
            mcp26_fail(error, MCP26_ERR_IO, "cannot open %s: %s", path != NULL ? path : "(null)", strerror(failure));
    } else {
        status = open_contents(*model, (*model)->file.bytes, (*model)->file.size, error);
    }
    return finish(model, status, error);
}

mcp26_status mcp26_model_open_memory(const void *data, size_t size, const mcp26_model_options *options,
                                     mcp26_model **model, mcp26_error *error) {
    mcp26_status status = make(options, model, error);
    if (status != MCP26_OK) return status;
    if (data == NULL) {
        status = mcp26_fail(error, MCP26_ERR_ARGUMENT, "no data");
    } else if ((uintptr_t)data % 64 != 0) {
        status = mcp26_fail(error, MCP26_ERR_ALIGNMENT, "an artifact in memory must be aligned to 64 bytes");
    } else {
        status = open_contents(*model, data, size, error);
    }
    return finish(model, status, error);
}

void mcp26_model_close(mcp26_model *model) { mcp26_model_drop(model); }

/* ---- Accessors ---- */

const mcp26_model_info *mcp26_model_get_info(const mcp26_model *model) { return model != NULL ? &model->info : NULL; }

const mcp26_tensor_info *mcp26_model_input(const mcp26_model *model, uint32_t index) {
    return model != NULL && index < model->info.input_count ? &model->inputs[index] : NULL;
}

const mcp26_tensor_info *mcp26_model_output(const mcp26_model *model, uint32_t index) {
    return model != NULL && index < model->info.output_count ? &model->outputs[index] : NULL;
}

const mcp26_symbol_info *mcp26_model_symbol(const mcp26_model *model, uint32_t index) {
    return model != NULL && index < model->info.symbol_count ? &model->symbols[index] : NULL;
}

const mcp26_step_info *mcp26_model_step(const mcp26_model *model, uint32_t index) {
    return model != NULL && index < model->info.step_count ? &model->steps[index] : NULL;
}

const void *mcp26_model_section(const mcp26_model *model, uint32_t index, uint32_t *kind, uint64_t *bytes) {
    if (model == NULL || index >= model->info.section_count) return NULL;
    mcp26_section section = mcp26_container_section(&model->container, index);
    if (kind != NULL) *kind = section.kind;
    if (bytes != NULL) *bytes = section.size;
    return model->container.bytes + section.offset;
}

const mcp26_model_golden_case *mcp26_model_golden_case_of(const mcp26_model *model, uint32_t golden) {
    return model != NULL && golden < model->info.golden_count ? &model->golden[golden] : NULL;
}

const mcp26_golden_case *mcp26_model_golden(const mcp26_model *model, uint32_t golden) {
    const mcp26_model_golden_case *found = mcp26_model_golden_case_of(model, golden);
    return found != NULL ? &found->info : NULL;
}

const mcp26_golden_tensor *mcp26_model_golden_input(const mcp26_model *model, uint32_t golden, uint32_t i) {
    const mcp26_model_golden_case *found = mcp26_model_golden_case_of(model, golden);
    return found != NULL && i < found->info.input_count ? &found->inputs[i].info : NULL;
}

const mcp26_golden_tensor *mcp26_model_golden_output(const mcp26_model *model, uint32_t golden, uint32_t i) {
    const mcp26_model_golden_case *found = mcp26_model_golden_case_of(model, golden);
    return found != NULL && i < found->info.output_count ? &found->outputs[i].info : NULL;
}
