#ifndef MCP26_CHECKSUM_H
#define MCP26_CHECKSUM_H

#include <stdint.h>

/* CRC-32C (Castagnoli: reflected polynomial 0x82f63b78, initial value and final XOR 0xffffffff, as in iSCSI). */
uint32_t mcp26_crc32c(const uint8_t *bytes, uint64_t size);

/* SHA-256 (FIPS 180-4). */
void mcp26_sha256(const uint8_t *bytes, uint64_t size, uint8_t digest[32]);

#endif
