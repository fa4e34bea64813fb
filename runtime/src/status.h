#ifndef MCP26_STATUS_H
#define MCP26_STATUS_H

#include "mcp26.h"

/* Note a failure where the caller gave a place for it (`error` may be NULL), and return `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
mcp26_status mcp26_fail(mcp26_error *error, mcp26_status status, const char *format, ...);

/* Forget an earlier failure. */
void mcp26_succeed(mcp26_error *error);

/* Add text to the message. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void mcp26_append(mcp26_error *error, const char *format, ...);

#endif
