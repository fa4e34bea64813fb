/* The self-test: runs an embedded case and compares what comes out with what was expected. */
#include "session.h"

#include "status.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

mcp26_status mcp26_session_run_golden(mcp26_session *session, uint32_t golden) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    const mcp26_golden_case *info = mcp26_model_golden(session->model, golden);
    if (info == NULL) {
        return mcp26_fail(&session->error, MCP26_ERR_ARGUMENT, "golden case %u: the artifact has %u", golden,
                          session->model->info.golden_count);
    }
    for (uint32_t i = 0; i < info->input_count; i++) {
        const mcp26_golden_tensor *input = mcp26_model_golden_input(session->model, golden, i);
        mcp26_status status = mcp26_session_bind_input(session, input->index, MCP26_UNDEFINED, input->shape,
                                                       input->rank, input->data, input->bytes);
        if (status != MCP26_OK) return status;
    }
    mcp26_session_reset_state(session);
    return mcp26_session_run(session);
}

static double from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* IEEE binary16. */
static double from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    double magnitude = fraction / 16777216.0; /* subnormal: fraction * 2^-24 */
    return sign != 0 ? -magnitude : magnitude;
}

/* Element `i` as a number; for types of 8 bits and fewer, but for int8, the byte. */
static double value_at(const uint8_t *data, uint32_t dtype, uint64_t i) {
    union {
        float f32;
        double f64;
        uint16_t u16;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint32_t u32;
        uint64_t u64;
    } element;
    uint32_t bytes = mcp26_dtype_alignment(dtype);
    memcpy(&element, data + i * bytes, bytes);
    switch (dtype) {
    case MCP26_FLOAT32: return (double)element.f32;
    case MCP26_FLOAT64: return element.f64;
    case MCP26_FLOAT16: return from_half(element.u16);
    case MCP26_BFLOAT16: return from_bits((uint32_t)element.u16 << 16);
    case MCP26_INT8: return element.i8;
    case MCP26_INT16: return element.i16;
    case MCP26_INT32: return element.i32;
    case MCP26_INT64: return (double)element.i64;
    case MCP26_UINT16: return element.u16;
    case MCP26_UINT32: return element.u32;
    case MCP26_UINT64: return (double)element.u64;
    default: return data[i];
    }
}

/* A NaN of a type whose NaNs are told apart by the sign alone. */
static int is_small_nan(const uint8_t *data, uint32_t dtype, uint64_t i) {
    if (dtype == MCP26_FLOAT8E4M3FN) return (data[i] & 0x7f) == 0x7f;
    return dtype == MCP26_FLOAT8E5M2 && (data[i] & 0x7f) > 0x7c;
}

static int is_float(uint32_t dtype) {
    return dtype == MCP26_FLOAT32 || dtype == MCP26_FLOAT64 || dtype == MCP26_FLOAT16 || dtype == MCP26_BFLOAT16;
}

static double absolute(double value) { return value < 0 ? -value : value; }

/* By how much two numbers differ beyond the tolerance; positive: a mismatch. */
static double excess(double got, double want, const mcp26_golden_case *tolerance) {
    const double infinity = from_bits(0x7f800000);
    int got_nan = got != got, want_nan = want != want;
    if (got_nan || want_nan) return got_nan && want_nan ? -infinity : infinity;
    if (got == want) return -infinity; /* equal infinities too */
    if (absolute(want) == infinity || absolute(got) == infinity) return infinity;
    return absolute(got - want) - ((double)tolerance->atol + (double)tolerance->rtol * absolute(want));
}

static void compare(const uint8_t *got, const uint8_t *want, uint64_t elements, uint32_t dtype,
                    const mcp26_golden_case *tolerance, mcp26_comparison *result) {
    const uint32_t bytes = mcp26_dtype_alignment(dtype);
    double worst = -from_bits(0x7f800000);
    *result = (mcp26_comparison){.elements = elements};
    for (uint64_t i = 0; i < elements; i++) {
        if (memcmp(got + i * bytes, want + i * bytes, bytes) == 0) continue;
        if (is_small_nan(got, dtype, i) && is_small_nan(want, dtype, i)) continue;
        double a = value_at(got, dtype, i), b = value_at(want, dtype, i);
        double difference = absolute(a - b);
        double beyond = is_float(dtype) ? excess(a, b, tolerance) : difference;
        result->mismatches += is_float(dtype) ? beyond > 0 : 1;
        if (difference > result->max_abs_difference) result->max_abs_difference = difference;
        if (beyond <= worst) continue;
        worst = beyond;
        result->worst_index = i;
        result->worst_got = a;
        result->worst_want = b;
    }
}

mcp26_status mcp26_session_compare_golden(mcp26_session *session, uint32_t golden, uint32_t i,
                                          mcp26_comparison *result) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    mcp26_succeed(&session->error);
    const mcp26_golden_case *tolerance = mcp26_model_golden(session->model, golden);
    const mcp26_golden_tensor *want = mcp26_model_golden_output(session->model, golden, i);
    if (want == NULL) return mcp26_fail(&session->error, MCP26_ERR_ARGUMENT, "no golden output %u, %u", golden, i);
    const mcp26_tensor_info *info = &session->model->outputs[want->index];
    mcp26_view got;
    mcp26_comparison comparison = {0};
    (void)mcp26_session_output(session, want->index, &got);
    if (result != NULL) *result = comparison;
    if (got.rank != want->rank || memcmp(got.shape, want->shape, want->rank * sizeof *want->shape) != 0) {
        return mcp26_fail(&session->error, MCP26_ERR_GOLDEN, "output '%s' has another shape than expected", info->name);
    }
    uint64_t elements = want->bytes / mcp26_dtype_alignment(info->dtype);
    compare(got.data, want->data, elements, info->dtype, tolerance, &comparison);
    if (result != NULL) *result = comparison;
    if (comparison.mismatches == 0) return MCP26_OK;
    return mcp26_fail(&session->error, MCP26_ERR_GOLDEN,
                      "output '%s': %" PRIu64 " of %" PRIu64 " elements differ, the worst at %" PRIu64
                      ": got %.9g, expected %.9g",
                      info->name, comparison.mismatches, elements, comparison.worst_index, comparison.worst_got,
                      comparison.worst_want);
}
