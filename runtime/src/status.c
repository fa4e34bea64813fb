#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t mcp26_version(void) { return MCP26_VERSION_MAJOR << 16 | MCP26_VERSION_MINOR; }

const char *mcp26_strerror(mcp26_status status) {
    switch (status) {
    case MCP26_OK: return "success";
    case MCP26_ERR_ARGUMENT: return "an argument is invalid";
    case MCP26_ERR_IO: return "the file cannot be opened or mapped";
    case MCP26_ERR_MEMORY: return "memory is exhausted";
    case MCP26_ERR_NOT_ARTIFACT: return "the file is not an mcp26 artifact";
    case MCP26_ERR_TRUNCATED: return "the file is not as long as its header states";
    case MCP26_ERR_CORRUPT_HEADER: return "the header or section table is damaged";
    case MCP26_ERR_CORRUPT_META: return "the metadata is damaged";
    case MCP26_ERR_CORRUPT_CODE: return "the code is damaged";
    case MCP26_ERR_CORRUPT_DATA: return "a section's SHA-256 is wrong";
    case MCP26_ERR_FORMAT_VERSION: return "the format's major version is not supported";
    case MCP26_ERR_RUNTIME_VERSION: return "the artifact needs another runtime version";
    case MCP26_ERR_CPU: return "no code variant runs on this processor";
    case MCP26_ERR_DTYPE: return "a tensor has the wrong data type";
    case MCP26_ERR_RANK: return "a tensor has the wrong rank";
    case MCP26_ERR_SHAPE: return "a tensor has the wrong shape";
    case MCP26_ERR_SYMBOL: return "a symbolic dimension is outside its bounds";
    case MCP26_ERR_MISSING_INPUT: return "an input is not bound";
    case MCP26_ERR_BYTES: return "a buffer has the wrong size";
    case MCP26_ERR_ALIGNMENT: return "a buffer is misaligned";
    case MCP26_ERR_DATA: return "the data led out of bounds";
    case MCP26_ERR_CANCELLED: return "the run was cancelled";
    case MCP26_ERR_GOLDEN: return "an output differs from the expected one";
    case MCP26_ERR_STEP: return "compiled code misbehaved";
    case MCP26_ERR_NO_CODE: return "the artifact holds no native code";
    }
    return "unknown status";
}

void mcp26_succeed(mcp26_error *error) {
    if (error == NULL) return;
    error->status = MCP26_OK;
    error->message[0] = 0;
}

static void append(mcp26_error *error, const char *format, va_list arguments) {
    size_t length = strlen(error->message);
    (void)vsnprintf(error->message + length, sizeof error->message - length, format, arguments);
}

void mcp26_append(mcp26_error *error, const char *format, ...) {
    if (error == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    append(error, format, arguments);
    va_end(arguments);
}

mcp26_status mcp26_fail(mcp26_error *error, mcp26_status status, const char *format, ...) {
    if (error == NULL) return status;
    error->status = status;
    error->message[0] = 0;
    va_list arguments;
    va_start(arguments, format);
    append(error, format, arguments);
    va_end(arguments);
    return status;
}
