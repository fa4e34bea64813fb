#ifndef MCP26_TENSOR_H
#define MCP26_TENSOR_H

#include "mcp26.h"

/* Bytes of a row-major tensor; 0 with *overflow set for a negative size or more than 2^63 - 1 bytes. */
uint64_t mcp26_tensor_bytes(const int64_t *shape, uint32_t rank, uint32_t dtype, int *overflow);

/* Bytes that a tensor's address must be a multiple of. */
uint32_t mcp26_dtype_alignment(uint32_t dtype);

/* Whether values of that type are compared with a tolerance: floats of 16 bits and more. */
int mcp26_dtype_is_float(uint32_t dtype);

/* Add "1x3xHxW" to a message: a tensor's dimensions as the metadata has them. */
void mcp26_append_dims(mcp26_error *error, const mcp26_tensor_info *info);

#endif
