#include "checksum.h"

#include "mcp26.h"

#include <string.h>

/* Both ISAs have an instruction for this polynomial. Inline assembly, because the library is built for the baseline and
 * asks the processor first. */
#if defined(__x86_64__)

#define CRC_FEATURE "sse4_2"
static uint32_t crc_word(uint32_t crc, uint64_t word) {
    uint64_t wide = crc;
    __asm__("crc32q %1, %0" : "+r"(wide) : "r"(word));
    return (uint32_t)wide;
}

#elif defined(__aarch64__) && !defined(__AARCH64EB__)

#define CRC_FEATURE "crc32"
static uint32_t crc_word(uint32_t crc, uint64_t word) {
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

#endif

/* Four bits at a time: small, and needed for a few bytes or on old processors only. */
static uint32_t crc_byte(uint32_t crc, uint8_t byte) {
    static const uint32_t NIBBLES[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    crc ^= byte;
    crc = crc >> 4 ^ NIBBLES[crc & 15];
    return crc >> 4 ^ NIBBLES[crc & 15];
}

uint32_t mcp26_crc32c(const uint8_t *bytes, uint64_t size) {
    uint32_t crc = 0xffffffff;
#ifdef CRC_FEATURE
    if (mcp26_cpu_has(CRC_FEATURE)) {
        for (; size >= 8; bytes += 8, size -= 8) {
            uint64_t word;
            memcpy(&word, bytes, 8);
            crc = crc_word(crc, word);
        }
    }
#endif
    for (; size > 0; bytes++, size--) crc = crc_byte(crc, *bytes);
    return ~crc;
}
