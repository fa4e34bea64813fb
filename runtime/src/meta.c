/* Decodes the metadata FlatBuffer into the model's plain structures, once, at open. */
#include "model.h"

#include "cpu.h"
#include "draw.h"
#include "fb.h"
#include "schema_slots.h"
#include "status.h"
#include "tensor.h"

#include <string.h>

static const char OUT_OF_MEMORY[] = "memory";

/* Elements of model memory; where exhausted, the buffer is at fault, so that decoding ends the common way. */
static void *take(mcp26_model *model, mcp26_fb *fb, uint64_t count, uint64_t size) {
    void *memory = mcp26_model_take(model, count, size);
    if (memory == NULL && fb->fault == NULL) fb->fault = OUT_OF_MEMORY;
    return memory;
}

/* Note that what is being read makes no sense, unless something before did not. */
static void require(mcp26_fb *fb, int sound) {
    if (!sound && fb->fault == NULL) fb->fault = fb->where;
}

/* A string that the schema requires. */
static const char *text(const mcp26_fb_table *table, uint32_t slot) {
    const char *value = mcp26_fb_string(table, slot, NULL);
    require(table->fb, value != NULL);
    return value != NULL ? value : "";
}

/* The 32 bytes of a hash. */
static const uint8_t *sha256_of(const mcp26_fb_table *table, uint32_t slot) {
    mcp26_fb_vector bytes = mcp26_fb_vector_of(table, slot, 1);
    require(table->fb, bytes.count == 32);
    return table->fb->fault == NULL ? mcp26_fb_element(&bytes, 0) : NULL;
}

/* A section that must be of that kind. */
static mcp26_section section_of(const mcp26_model *model, mcp26_fb *fb, int64_t index, mcp26_section_kind kind) {
    mcp26_section section = {0};
    if (index >= 0 && index < model->container.section_count) {
        section = mcp26_container_section(&model->container, (uint32_t)index);
    }
    require(fb, section.kind == (uint32_t)kind);
    return section;
}

static const int64_t *decode_shape(mcp26_model *model, const mcp26_fb_table *table, uint32_t slot, uint32_t *rank) {
    mcp26_fb_vector values = mcp26_fb_vector_of(table, slot, 8);
    int64_t *shape = take(model, table->fb, values.count, sizeof *shape);
    *rank = values.count;
    if (shape == NULL) return NULL;
    for (uint32_t i = 0; i < values.count; i++) shape[i] = (int64_t)mcp26_read_u64(mcp26_fb_element(&values, i));
    return shape;
}

static void decode_tensor(mcp26_model *model, const mcp26_fb_table *table, mcp26_tensor_info *info) {
    mcp26_fb *fb = table->fb;
    info->name = text(table, Tensor_name);
    info->dtype = mcp26_fb_u8(table, Tensor_dtype, 0);
    info->max_bytes = mcp26_fb_u64(table, Tensor_max_bytes, 0);
    require(fb, mcp26_dtype_bits(info->dtype) != 0);
    mcp26_fb_vector refs = mcp26_fb_vector_of(table, Tensor_dims, DimRef_size);
    mcp26_fb_vector texts = mcp26_fb_vector_of(table, Tensor_dim_texts, 4);
    int64_t *dims = take(model, fb, refs.count, sizeof *dims);
    int32_t *symbols = take(model, fb, refs.count, sizeof *symbols);
    const char **labels = take(model, fb, refs.count, sizeof *labels);
    require(fb, texts.count == 0 || texts.count == refs.count);
    if (fb->fault != NULL) return;
    for (uint32_t i = 0; i < refs.count; i++) {
        const uint8_t *ref = mcp26_fb_element(&refs, i);
        int64_t value = (int64_t)mcp26_read_u64(ref + DimRef_value);
        symbols[i] = (int32_t)mcp26_read_u32(ref + DimRef_symbol);
        dims[i] = symbols[i] < 0 ? value : -1;
        require(fb, symbols[i] >= -1 && symbols[i] < (int64_t)model->info.symbol_count && dims[i] >= -1);
        if (fb->fault != NULL) return;
        if (dims[i] >= 0) continue;
        if (texts.count != 0) labels[i] = mcp26_fb_element_string(&texts, i);
        else labels[i] = symbols[i] >= 0 ? model->symbols[symbols[i]].name : "?";
    }
    info->dims = dims;
    info->dim_symbols = symbols;
    info->dim_texts = labels;
    info->rank = refs.count;
}

static mcp26_tensor_info *decode_tensors(mcp26_model *model, const mcp26_fb_table *meta, uint32_t slot,
                                         uint32_t *count) {
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, slot, 4);
    mcp26_tensor_info *tensors = take(model, meta->fb, vector.count, sizeof *tensors);
    for (uint32_t i = 0; i < vector.count && meta->fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        decode_tensor(model, &table, &tensors[i]);
    }
    *count = vector.count;
    return tensors;
}

static void decode_symbols(mcp26_model *model, const mcp26_fb_table *meta) {
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, Meta_symbols, 4);
    mcp26_symbol_info *symbols = take(model, meta->fb, vector.count, sizeof *symbols);
    for (uint32_t i = 0; i < vector.count && meta->fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        symbols[i].name = text(&table, Symbol_name);
        symbols[i].min = mcp26_fb_i64(&table, Symbol_min, 0);
        symbols[i].max = mcp26_fb_i64(&table, Symbol_max, Symbol_max_default);
        require(meta->fb, symbols[i].min >= 0 && (symbols[i].max == -1 || symbols[i].max >= symbols[i].min));
    }
    model->symbols = symbols;
    model->info.symbol_count = vector.count;
}

static void decode_shards(mcp26_model *model, const mcp26_fb_table *meta) {
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, Meta_shards, 4);
    mcp26_model_shard *shards = take(model, meta->fb, vector.count, sizeof *shards);
    mcp26_shard *shard_table = take(model, meta->fb, vector.count, sizeof *shard_table);
    for (uint32_t i = 0; i < vector.count && meta->fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        uint32_t index = mcp26_fb_u32(&table, Shard_section, 0);
        mcp26_section section = section_of(model, meta->fb, index, MCP26_SECTION_SHARD);
        shards[i].section = index;
        shards[i].base = model->container.bytes + section.offset;
        shards[i].size = section.size;
        shard_table[i] = (mcp26_shard){shards[i].base, shards[i].size};
        shards[i].sha256 = sha256_of(&table, Shard_sha256);
        model->info.weights_bytes += section.size;
    }
    model->shards = shards;
    model->shard_table = shard_table;
    model->info.shard_count = vector.count;
}

static void decode_steps(mcp26_model *model, const mcp26_fb_table *meta) {
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, Meta_steps, 4);
    mcp26_step_info *steps = take(model, meta->fb, vector.count, sizeof *steps);
    for (uint32_t i = 0; i < vector.count && meta->fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        mcp26_step_info *step = &steps[i];
        step->name = text(&table, Step_name);
        step->op = text(&table, Step_op);
        step->kernel = text(&table, Step_kernel);
        step->shape = mcp26_fb_string(&table, Step_shape, "");
        step->flops = mcp26_fb_u64(&table, Step_flops, 0);
        step->bytes = mcp26_fb_u64(&table, Step_bytes, 0);
        step->predicted_us = mcp26_fb_float(&table, Step_predicted_us, 0);
        mcp26_fb_vector list = mcp26_fb_vector_of(&table, Step_shards, 4);
        uint32_t *shards = take(model, meta->fb, list.count, sizeof *shards);
        if (shards == NULL) return;
        for (uint32_t j = 0; j < list.count; j++) {
            shards[j] = mcp26_read_u32(mcp26_fb_element(&list, j));
            require(meta->fb, shards[j] < model->info.shard_count);
        }
        step->shards = shards;
        step->shard_count = list.count;
    }
    model->steps = steps;
    model->info.step_count = vector.count;
}

/* Where the elements of a golden tensor lie in the GOLDEN section, or what stands for them. */
static void decode_golden_data(const mcp26_fb_table *table, mcp26_section section, const uint8_t *base, uint32_t dtype,
                               mcp26_model_golden_tensor *tensor) {
    mcp26_fb *fb = table->fb;
    const uint64_t offset = mcp26_fb_u64(table, GoldenTensor_offset, 0), size = mcp26_dtype_alignment(dtype);
    const uint64_t stored = mcp26_fb_u64(table, GoldenTensor_bytes, 0), elements = tensor->info.bytes / size;
    require(fb, offset <= section.size && stored <= section.size - offset && offset % size == 0);
    if (mcp26_fb_u8(table, GoldenTensor_drawn, 0)) {
        tensor->seed = mcp26_fb_u64(table, GoldenTensor_seed, 0);
        tensor->scale = mcp26_fb_float(table, GoldenTensor_scale, 0);
        tensor->range = mcp26_fb_u32(table, GoldenTensor_range, 0);
        require(fb, mcp26_draw_has(dtype) && (mcp26_dtype_is_float(dtype) || tensor->range != 0));
        return;
    }
    tensor->block = mcp26_fb_u64(table, GoldenTensor_block, 0);
    if (tensor->block == 0) {
        require(fb, stored == tensor->info.bytes);
        tensor->info.data = base + offset;
        return;
    }
    const uint64_t blocks = elements / tensor->block + (elements % tensor->block != 0);
    require(fb, mcp26_draw_has(dtype) && blocks <= stored && blocks * (sizeof(double) + size) == stored);
    tensor->means = base + offset;
    tensor->elements = tensor->means + blocks * sizeof(double);
}

/* The tensors of one side of a golden case. Inputs are drawn, outputs are sampled, never the other way round. */
static const mcp26_model_golden_tensor *decode_golden_side(mcp26_model *model, const mcp26_fb_table *golden,
                                                           uint32_t slot, mcp26_section section,
                                                           const mcp26_tensor_info *infos, uint32_t info_count,
                                                           uint32_t *count) {
    mcp26_fb *fb = golden->fb;
    mcp26_fb_vector vector = mcp26_fb_vector_of(golden, slot, 4);
    mcp26_model_golden_tensor *tensors = take(model, fb, vector.count, sizeof *tensors);
    for (uint32_t i = 0; i < vector.count && fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        mcp26_golden_tensor *info = &tensors[i].info;
        info->index = mcp26_fb_u32(&table, GoldenTensor_index, 0);
        info->shape = decode_shape(model, &table, GoldenTensor_shape, &info->rank);
        require(fb, info->index < info_count);
        if (fb->fault != NULL) break;
        const uint32_t dtype = infos[info->index].dtype;
        int overflow;
        info->bytes = mcp26_tensor_bytes(info->shape, info->rank, dtype, &overflow);
        require(fb, !overflow);
        decode_golden_data(&table, section, model->container.bytes + section.offset, dtype, &tensors[i]);
        require(fb, slot == GoldenCase_inputs ? tensors[i].block == 0 : tensors[i].block != 0 || info->data != NULL);
    }
    *count = vector.count;
    return tensors;
}

static void decode_defaults(mcp26_model *model, const mcp26_fb_table *meta, mcp26_tensor_info *inputs) {
    mcp26_fb *fb = meta->fb;
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, Meta_defaults, 4);
    mcp26_model_default *defaults = take(model, fb, vector.count, sizeof *defaults);
    for (uint32_t i = 0; i < vector.count && fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        mcp26_model_default *value = &defaults[i];
        uint64_t offset = mcp26_fb_u64(&table, DefaultValue_offset, 0);
        value->input = mcp26_fb_u32(&table, DefaultValue_input, 0);
        value->shard = mcp26_fb_u32(&table, DefaultValue_shard, 0);
        value->bytes = mcp26_fb_u64(&table, DefaultValue_bytes, 0);
        value->shape = decode_shape(model, &table, DefaultValue_shape, &value->rank);
        require(fb, value->input < model->info.input_count && value->shard < model->info.shard_count);
        if (fb->fault != NULL) break;
        mcp26_tensor_info *input = &inputs[value->input];
        const mcp26_model_shard *shard = &model->shards[value->shard];
        require(fb, value->rank == input->rank && !input->has_default);
        require(fb, offset <= shard->size && value->bytes <= shard->size - offset);
        if (fb->fault != NULL) break;
        int overflow;
        uint64_t bytes = mcp26_tensor_bytes(value->shape, value->rank, input->dtype, &overflow);
        require(fb, !overflow && bytes == value->bytes && offset % mcp26_dtype_alignment(input->dtype) == 0);
        for (uint32_t d = 0; d < value->rank; d++) {
            require(fb, value->shape[d] >= 0 && (input->dims[d] < 0 || input->dims[d] == value->shape[d]));
        }
        input->has_default = 1;
        value->data = shard->base + offset;
    }
    model->defaults = defaults;
    model->default_count = vector.count;
}

static void decode_golden(mcp26_model *model, const mcp26_fb_table *meta) {
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, Meta_golden, 4);
    mcp26_model_golden_case *cases = take(model, meta->fb, vector.count, sizeof *cases);
    mcp26_section section = {0};
    if (vector.count > 0) {
        int32_t index = mcp26_fb_i32(meta, Meta_golden_section, Meta_golden_section_default);
        section = section_of(model, meta->fb, index, MCP26_SECTION_GOLDEN);
    }
    for (uint32_t i = 0; i < vector.count && meta->fb->fault == NULL; i++) {
        mcp26_fb_table table = mcp26_fb_element_table(&vector, i);
        mcp26_model_golden_case *golden = &cases[i];
        golden->info.rtol = mcp26_fb_float(&table, GoldenCase_rtol, 0);
        golden->info.atol = mcp26_fb_float(&table, GoldenCase_atol, 0);
        golden->inputs = decode_golden_side(model, &table, GoldenCase_inputs, section, model->inputs,
                                            model->info.input_count, &golden->info.input_count);
        golden->outputs = decode_golden_side(model, &table, GoldenCase_outputs, section, model->outputs,
                                             model->info.output_count, &golden->info.output_count);
        for (uint32_t j = 0; j < golden->info.input_count && meta->fb->fault == NULL; j++) {
            const mcp26_golden_tensor *input = &golden->inputs[j].info;
            uint64_t bytes = input->data == NULL ? (input->bytes + 63) / 64 * 64 : 0;
            require(meta->fb, !__builtin_add_overflow(golden->drawn_bytes, bytes, &golden->drawn_bytes));
        }
    }
    model->golden = cases;
    model->info.golden_count = vector.count;
}

/* Whether this processor has what the variant needs; if not, the message gets why, after `separator`. */
static int runs_here(const mcp26_fb_table *variant, const char *separator, mcp26_error *error) {
    const char *isa = text(variant, CodeVariant_isa);
    const char *name = text(variant, CodeVariant_name);
    if (variant->fb->fault != NULL) return 0;
    if (strcmp(isa, mcp26_cpu_isa()) != 0) {
        mcp26_append(error, "%s '%s' is for %s, this is %s", separator, name, isa, mcp26_cpu_isa());
        return 0;
    }
    int missing = 0;
    mcp26_fb_vector features = mcp26_fb_vector_of(variant, CodeVariant_features, 4);
    for (uint32_t i = 0; i < features.count; i++) {
        const char *feature = mcp26_fb_element_string(&features, i);
        if (mcp26_cpu_has(feature)) continue;
        if (missing++ == 0) mcp26_append(error, "%s '%s' needs", separator, name);
        mcp26_append(error, " %s", feature);
    }
    return missing == 0;
}

/* Take the first variant that runs here; every variant must be sound, whichever is taken. */
static mcp26_status choose_code(mcp26_model *model, const mcp26_fb_table *meta, uint32_t *code_section,
                                mcp26_error *error) {
    mcp26_fb *fb = meta->fb;
    mcp26_fb_vector vector = mcp26_fb_vector_of(meta, Meta_code, 4);
    int chosen = 0;
    mcp26_fail(error, MCP26_ERR_CPU, "no code variant runs on this processor");
    for (uint32_t i = 0; i < vector.count && fb->fault == NULL; i++) {
        mcp26_fb_table variant = mcp26_fb_element_table(&vector, i);
        uint32_t index = mcp26_fb_u32(&variant, CodeVariant_section, 0);
        mcp26_section section = section_of(model, fb, index, MCP26_SECTION_CODE);
        uint64_t entry = mcp26_fb_u64(&variant, CodeVariant_entry, 0);
        uint64_t plan = mcp26_fb_u64(&variant, CodeVariant_plan, 0);
        (void)sha256_of(&variant, CodeVariant_sha256);
        require(fb, entry < section.size && plan < section.size);
        if (chosen || fb->fault != NULL || !runs_here(&variant, i == 0 ? ":" : ";", error)) continue;
        chosen = 1;
        model->entry_offset = entry;
        model->plan_offset = plan;
        model->info.variant = text(&variant, CodeVariant_name);
        model->info.isa = text(&variant, CodeVariant_isa);
        model->info.code_bytes = section.size;
        *code_section = index;
    }
    if (fb->fault != NULL || chosen) return MCP26_OK;
    if (vector.count == 0) return mcp26_fail(error, MCP26_ERR_NO_CODE, "the artifact holds no native code");
    return MCP26_ERR_CPU;
}

mcp26_status mcp26_model_decode(mcp26_model *model, uint32_t *code_section, mcp26_error *error) {
    mcp26_model_info *info = &model->info;
    mcp26_section section = mcp26_container_section(&model->container, model->container.meta);
    const uint8_t *bytes = model->container.bytes + section.offset;
    mcp26_fb fb;
    mcp26_fb_table meta = mcp26_fb_root(&fb, bytes, section.size, MCP26_SCHEMA_IDENTIFIER);
    info->meta = bytes;
    info->meta_bytes = section.size;
    info->file_bytes = model->container.size;
    info->format_major = model->container.format_major;
    info->format_minor = model->container.format_minor;
    info->needs_major = model->container.needs_major;
    info->needs_minor = model->container.needs_minor;
    info->section_count = model->container.section_count;

    fb.where = "Meta";
    uint32_t abi = mcp26_fb_u32(&meta, Meta_abi_version, 0);
    if (fb.fault == NULL && abi != MCP26_ABI_VERSION) {
        return mcp26_fail(error, MCP26_ERR_RUNTIME_VERSION,
                          "its code is for ABI version %u, this runtime has version %d: update the older of the two",
                          abi, MCP26_ABI_VERSION);
    }
    info->name = text(&meta, Meta_model_name);
    info->target = text(&meta, Meta_target);
    info->arena_bytes = mcp26_fb_u64(&meta, Meta_arena_bytes, 0);
    info->state_bytes = mcp26_fb_u64(&meta, Meta_state_bytes, 0);
    info->scratch_bytes = mcp26_fb_u64(&meta, Meta_scratch_bytes, 0);
    info->unbounded = mcp26_fb_u8(&meta, Meta_unbounded, 0) != 0;
    model->offset_count = mcp26_fb_u32(&meta, Meta_offset_count, 0);
    fb.where = "Meta.symbols";
    decode_symbols(model, &meta);
    fb.where = "Meta.inputs";
    mcp26_tensor_info *inputs = decode_tensors(model, &meta, Meta_inputs, &info->input_count);
    model->inputs = inputs;
    fb.where = "Meta.outputs";
    model->outputs = decode_tensors(model, &meta, Meta_outputs, &info->output_count);
    fb.where = "Meta.shards";
    decode_shards(model, &meta);
    fb.where = "Meta.defaults";
    decode_defaults(model, &meta, inputs);
    fb.where = "Meta.steps";
    decode_steps(model, &meta);
    fb.where = "Meta.golden";
    decode_golden(model, &meta);
    fb.where = "Meta.code";
    mcp26_status status = choose_code(model, &meta, code_section, error);
    if (fb.fault == OUT_OF_MEMORY) return mcp26_fail(error, MCP26_ERR_MEMORY, "no memory for the metadata");
    if (fb.fault != NULL) return mcp26_fail(error, MCP26_ERR_CORRUPT_META, "the metadata is malformed at %s", fb.fault);
    return status;
}
