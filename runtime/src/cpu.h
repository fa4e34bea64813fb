#ifndef MCP26_CPU_H
#define MCP26_CPU_H

/* The instruction set that this runtime is built for, as artifacts name it: "x86-64", "aarch64". */
const char *mcp26_cpu_isa(void);

#endif
