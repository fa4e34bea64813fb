#include "tensor.h"

#include "status.h"

#include <inttypes.h>

static const struct {
    char name[15];
    uint8_t bits; /* in memory */
} DTYPES[] = {
    [MCP26_UNDEFINED] = {"undefined", 0},
    [MCP26_FLOAT32] = {"float32", 32},
    [MCP26_UINT8] = {"uint8", 8},
    [MCP26_INT8] = {"int8", 8},
    [MCP26_UINT16] = {"uint16", 16},
    [MCP26_INT16] = {"int16", 16},
    [MCP26_INT32] = {"int32", 32},
    [MCP26_INT64] = {"int64", 64},
    [MCP26_BOOL] = {"bool", 8},
    [MCP26_FLOAT16] = {"float16", 16},
    [MCP26_FLOAT64] = {"float64", 64},
    [MCP26_UINT32] = {"uint32", 32},
    [MCP26_UINT64] = {"uint64", 64},
    [MCP26_BFLOAT16] = {"bfloat16", 16},
    [MCP26_FLOAT8E4M3FN] = {"float8e4m3fn", 8},
    [MCP26_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8},
    [MCP26_FLOAT8E5M2] = {"float8e5m2", 8},
    [MCP26_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8},
    [MCP26_UINT4] = {"uint4", 8},
    [MCP26_INT4] = {"int4", 8},
    [MCP26_FLOAT4E2M1] = {"float4e2m1", 8},
    [MCP26_FLOAT8E8M0] = {"float8e8m0", 8},
    [MCP26_UINT2] = {"uint2", 8},
    [MCP26_INT2] = {"int2", 8},
};

uint32_t mcp26_dtype_bits(uint32_t dtype) { return dtype < sizeof DTYPES / sizeof *DTYPES ? DTYPES[dtype].bits : 0; }

const char *mcp26_dtype_name(uint32_t dtype) { return mcp26_dtype_bits(dtype) != 0 ? DTYPES[dtype].name : "undefined"; }

uint32_t mcp26_dtype_alignment(uint32_t dtype) {
    uint32_t bits = mcp26_dtype_bits(dtype);
    return bits > 8 ? bits / 8 : 1;
}

int mcp26_dtype_is_float(uint32_t dtype) {
    return dtype == MCP26_FLOAT32 || dtype == MCP26_FLOAT64 || dtype == MCP26_FLOAT16 || dtype == MCP26_BFLOAT16;
}

uint64_t mcp26_tensor_bytes(const int64_t *shape, uint32_t rank, uint32_t dtype, int *overflow) {
    int64_t bits = mcp26_dtype_bits(dtype);
    int empty = 0;
    *overflow = 0;
    for (uint32_t i = 0; i < rank; i++) {
        *overflow |= shape[i] < 0;
        empty |= shape[i] == 0;
    }
    if (*overflow || empty) return 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(bits, shape[i], &bits)) {
            *overflow = 1;
            return 0;
        }
    }
    return ((uint64_t)bits + 7) / 8;
}

void mcp26_append_dims(mcp26_error *error, const mcp26_tensor_info *info) {
    if (info->rank == 0) mcp26_append(error, "scalar");
    for (uint32_t i = 0; i < info->rank; i++) {
        if (i > 0) mcp26_append(error, "x");
        if (info->dims[i] >= 0) mcp26_append(error, "%" PRId64, info->dims[i]);
        else mcp26_append(error, "%s", info->dim_texts[i]);
    }
}
