/* peak.c: fused multiply-adds from registers alone, the most that a core can do.
 *
 * float_fma_flop(n) does n rounds of independent chains, as wide as the vectors of the processor it is compiled for,
 * and gives the floating-point operations of it (a multiply-add counts two).
 */
#include <stdint.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
enum { CHAINS = 12 }; /* latency times units is 8 to 10 on today's cores; 16 registers hold these */
typedef float vector __attribute__((ext_vector_type(LANES)));

float peak_sink;

double float_fma_flop(int64_t rounds) {
    vector sum[CHAINS], a = 1.0f, b = 1e-9f;
    _Pragma("clang loop unroll(full)") for (int i = 0; i < CHAINS; i++) sum[i] = (float)i;
    for (int64_t r = 0; r < rounds; r++) {
        _Pragma("clang loop unroll(full)") for (int i = 0; i < CHAINS; i++) {
            sum[i] = __builtin_elementwise_fma(sum[i], a, b);
        }
        __asm__ volatile("" : "+v"(a));
    }
    vector all = 0.0f;
    _Pragma("clang loop unroll(full)") for (int i = 0; i < CHAINS; i++) all += sum[i];
    peak_sink = all[0];
    return 2.0 * LANES * CHAINS * (double)rounds;
}
