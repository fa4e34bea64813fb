/* Which instructions the processor has, by the names that Linux gives them in /proc/cpuinfo. */
#include "mcp26.h"

#include "cpu.h"

#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <stdatomic.h>

const char *mcp26_cpu_isa(void) { return "x86-64"; }

/* Words of cpuid that the table below indexes. */
enum { LEAF1_C, LEAF1_D, LEAF7_B, LEAF7_C, LEAF7_D, LEAF71_A, EXTENDED_C, WORD_COUNT };

/* What the operating system must save for the registers that an instruction set uses (bits of XCR0). */
enum { STATE_NONE = 0, STATE_YMM = 0x6, STATE_ZMM = 0xe6 };

static const struct {
    char name[15];
    uint8_t word, bit, state;
} FEATURES[] = {
    {"sse2", LEAF1_D, 26, STATE_NONE},         {"pni", LEAF1_C, 0, STATE_NONE},
    {"pclmulqdq", LEAF1_C, 1, STATE_NONE},     {"ssse3", LEAF1_C, 9, STATE_NONE},
    {"fma", LEAF1_C, 12, STATE_YMM},           {"cx16", LEAF1_C, 13, STATE_NONE},
    {"sse4_1", LEAF1_C, 19, STATE_NONE},       {"sse4_2", LEAF1_C, 20, STATE_NONE},
    {"movbe", LEAF1_C, 22, STATE_NONE},        {"popcnt", LEAF1_C, 23, STATE_NONE},
    {"aes", LEAF1_C, 25, STATE_NONE},          {"avx", LEAF1_C, 28, STATE_YMM},
    {"f16c", LEAF1_C, 29, STATE_YMM},          {"bmi1", LEAF7_B, 3, STATE_NONE},
    {"avx2", LEAF7_B, 5, STATE_YMM},           {"bmi2", LEAF7_B, 8, STATE_NONE},
    {"avx512f", LEAF7_B, 16, STATE_ZMM},       {"avx512dq", LEAF7_B, 17, STATE_ZMM},
    {"avx512ifma", LEAF7_B, 21, STATE_ZMM},    {"avx512cd", LEAF7_B, 28, STATE_ZMM},
    {"avx512bw", LEAF7_B, 30, STATE_ZMM},      {"avx512vl", LEAF7_B, 31, STATE_ZMM},
    {"avx512vbmi", LEAF7_C, 1, STATE_ZMM},     {"gfni", LEAF7_C, 8, STATE_NONE},
    {"vaes", LEAF7_C, 9, STATE_YMM},           {"avx512_vnni", LEAF7_C, 11, STATE_ZMM},
    {"avx512_bitalg", LEAF7_C, 12, STATE_ZMM}, {"avx512_fp16", LEAF7_D, 23, STATE_ZMM},
    {"avx_vnni", LEAF71_A, 4, STATE_YMM},      {"avx512_bf16", LEAF71_A, 5, STATE_ZMM},
    {"lahf_lm", EXTENDED_C, 0, STATE_NONE},    {"abm", EXTENDED_C, 5, STATE_NONE},
};

static uint32_t saved_states(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* What cpuid says; asked once, since each question costs a virtual machine microseconds. Threads that ask at the same
 * time write the same numbers. */
static _Atomic uint32_t found[WORD_COUNT], found_states;
static atomic_int is_found;

static void find_features(void) {
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        found[LEAF1_C] = c;
        found[LEAF1_D] = d;
        if (c >> 27 & 1) found_states = saved_states(); /* OSXSAVE: xgetbv may be used */
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        found[LEAF7_B] = b;
        found[LEAF7_C] = c;
        found[LEAF7_D] = d;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) found[LEAF71_A] = a;
    }
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) found[EXTENDED_C] = c;
    atomic_store(&is_found, 1);
}

int32_t mcp26_cpu_has(const char *feature) {
    if (feature == NULL) return 0;
    if (!atomic_load(&is_found)) find_features();
    for (size_t i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++) {
        if (strcmp(FEATURES[i].name, feature) == 0) {
            return (found[FEATURES[i].word] >> FEATURES[i].bit & 1) &&
                   (found_states & FEATURES[i].state) == FEATURES[i].state;
        }
    }
    return 0;
}

#elif defined(__aarch64__)

#if defined(__linux__)
#include <sys/auxv.h>
static unsigned long hwcap(int word) { return getauxval(word == 0 ? AT_HWCAP : AT_HWCAP2); }
#else
static unsigned long hwcap(int word) { return word == 0 ? 3 : 0; } /* fp and asimd, which every such core has */
#endif

const char *mcp26_cpu_isa(void) { return "aarch64"; }

/* Bit numbers of the kernel's HWCAP (word 0) and HWCAP2 (word 1). */
static const struct {
    char name[10];
    uint8_t word, bit;
} FEATURES[] = {
    {"fp", 0, 0},        {"asimd", 0, 1},    {"aes", 0, 3},     {"pmull", 0, 4},  {"sha1", 0, 5},
    {"sha2", 0, 6},      {"crc32", 0, 7},    {"atomics", 0, 8}, {"fphp", 0, 9},   {"asimdhp", 0, 10},
    {"asimdrdm", 0, 12}, {"jscvt", 0, 13},   {"fcma", 0, 14},   {"lrcpc", 0, 15}, {"dcpop", 0, 16},
    {"sha3", 0, 17},     {"asimddp", 0, 20}, {"sha512", 0, 21}, {"sve", 0, 22},   {"asimdfhm", 0, 23},
    {"dit", 0, 24},      {"uscat", 0, 25},   {"ilrcpc", 0, 26}, {"flagm", 0, 27}, {"ssbs", 0, 28},
    {"sb", 0, 29},       {"sve2", 1, 1},     {"flagm2", 1, 7},  {"frint", 1, 8},  {"svei8mm", 1, 9},
    {"svebf16", 1, 12},  {"i8mm", 1, 13},    {"bf16", 1, 14},   {"sme", 1, 23},
};

int32_t mcp26_cpu_has(const char *feature) {
    if (feature == NULL) return 0;
    for (size_t i = 0; i < sizeof FEATURES / sizeof *FEATURES; i++) {
        if (strcmp(FEATURES[i].name, feature) == 0) {
            return (int32_t)(hwcap(FEATURES[i].word) >> FEATURES[i].bit & 1);
        }
    }
    return 0;
}

#else

const char *mcp26_cpu_isa(void) { return "unknown"; }

int32_t mcp26_cpu_has(const char *feature) {
    (void)feature;
    return 0;
}

#endif
