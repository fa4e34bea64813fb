/* Generated from schema/mcp26.fbs by schema/generate.py: do not edit.
 *
 * Table_field: the field's slot in the table's vtable. Table_field_default: its value where it is left out (0 unless
 * stated). Struct_field: the field's byte offset; Struct_size: the structure's bytes. */
#ifndef MCP26_SCHEMA_SLOTS_H
#define MCP26_SCHEMA_SLOTS_H

#define MCP26_SCHEMA_IDENTIFIER "MC26"

enum {
    DimRef_value = 0,
    DimRef_symbol = 8,
    DimRef_size = 16,
};

enum {
    Tensor_name = 0,
    Tensor_dtype = 1,
    Tensor_dims = 2,
    Tensor_dim_texts = 3,
    Tensor_max_bytes = 4,
};

enum {
    Symbol_name = 0,
    Symbol_min = 1,
    Symbol_max = 2,
    Symbol_max_default = -1,
};

enum {
    Shard_section = 0,
    Shard_sha256 = 1,
};

enum {
    CodeVariant_name = 0,
    CodeVariant_section = 1,
    CodeVariant_isa = 2,
    CodeVariant_features = 3,
    CodeVariant_entry = 4,
    CodeVariant_plan = 5,
    CodeVariant_sha256 = 6,
};

enum {
    Step_name = 0,
    Step_op = 1,
    Step_kernel = 2,
    Step_shards = 3,
    Step_flops = 4,
    Step_bytes = 5,
    Step_predicted_us = 6,
    Step_shape = 7,
};

enum {
    Decision_pass = 0,
    Decision_subject = 1,
    Decision_action = 2,
    Decision_reason = 3,
    Decision_numbers = 4,
};

enum {
    Number_name = 0,
    Number_value = 1,
};

enum {
    PassRecord_name = 0,
    PassRecord_spec = 1,
    PassRecord_nodes_before = 2,
    PassRecord_nodes_after = 3,
};

enum {
    Buffer_name = 0,
    Buffer_offset = 1,
    Buffer_bytes = 2,
    Buffer_first_step = 3,
    Buffer_last_step = 4,
};

enum {
    GoldenTensor_index = 0,
    GoldenTensor_shape = 1,
    GoldenTensor_offset = 2,
    GoldenTensor_bytes = 3,
    GoldenTensor_drawn = 4,
    GoldenTensor_seed = 5,
    GoldenTensor_scale = 6,
    GoldenTensor_range = 7,
    GoldenTensor_block = 8,
};

enum {
    GoldenCase_inputs = 0,
    GoldenCase_outputs = 1,
    GoldenCase_rtol = 2,
    GoldenCase_atol = 3,
};

enum {
    DefaultValue_input = 0,
    DefaultValue_shape = 1,
    DefaultValue_shard = 2,
    DefaultValue_offset = 3,
    DefaultValue_bytes = 4,
};

enum {
    KeyValue_key = 0,
    KeyValue_value = 1,
};

enum {
    Meta_model_name = 0,
    Meta_target = 1,
    Meta_abi_version = 2,
    Meta_inputs = 3,
    Meta_outputs = 4,
    Meta_symbols = 5,
    Meta_shards = 6,
    Meta_code = 7,
    Meta_steps = 8,
    Meta_arena_bytes = 9,
    Meta_unbounded = 10,
    Meta_state_bytes = 11,
    Meta_scratch_bytes = 12,
    Meta_offset_count = 13,
    Meta_live_set_bytes = 14,
    Meta_buffers = 15,
    Meta_passes = 16,
    Meta_decisions = 17,
    Meta_golden = 18,
    Meta_golden_section = 19,
    Meta_golden_section_default = -1,
    Meta_provenance = 20,
    Meta_sections = 21,
    Meta_defaults = 22,
};

enum {
    SectionHash_section = 0,
    SectionHash_sha256 = 1,
};

#endif
