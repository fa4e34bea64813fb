/* The self-test: runs an embedded case and compares what comes out with what was expected. */
#include "session.h"

#include "draw.h"
#include "status.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

/* Memory for the case's drawn inputs, kept for as long as the session lives. */
static int reserve_drawn(mcp26_session *session, uint64_t bytes) {
    if (bytes <= session->drawn_bytes) return 1;
    uint8_t *memory = mcp26_session_grow_memory(session, bytes);
    if (memory == NULL) return 0;
    if (session->drawn_bytes != 0) mcp26_os_free(session->drawn, session->drawn_bytes);
    session->grown_bytes -= session->drawn_bytes;
    session->drawn = memory;
    session->drawn_bytes = bytes;
    return 1;
}

mcp26_status mcp26_session_run_golden(mcp26_session *session, uint32_t golden) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    const mcp26_model_golden_case *found = mcp26_model_golden_case_of(session->model, golden);
    if (found == NULL) {
        return mcp26_fail(&session->error, MCP26_ERR_ARGUMENT, "golden case %u: the artifact has %u", golden,
                          session->model->info.golden_count);
    }
    if (!reserve_drawn(session, found->drawn_bytes)) {
        return mcp26_fail(&session->error, MCP26_ERR_MEMORY, "no memory for the inputs of golden case %u: %" PRIu64
                          " bytes", golden, found->drawn_bytes);
    }
    uint8_t *drawn = session->drawn;
    for (uint32_t i = 0; i < found->info.input_count; i++) {
        const mcp26_model_golden_tensor *input = &found->inputs[i];
        const mcp26_golden_tensor *info = &input->info;
        const void *data = info->data;
        if (data == NULL) {
            const uint32_t dtype = session->model->inputs[info->index].dtype;
            mcp26_draw(drawn, dtype, info->bytes / mcp26_dtype_alignment(dtype), input->seed, input->scale,
                       input->range);
            data = drawn;
            drawn += (info->bytes + 63) / 64 * 64;
        }
        mcp26_status status = mcp26_session_bind_input(session, info->index, MCP26_UNDEFINED, info->shape, info->rank,
                                                       data, info->bytes);
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

static double absolute(double value) { return value < 0 ? -value : value; }

/* By how much two numbers differ beyond the tolerance, which grows with `magnitude`; positive: a mismatch. */
static double excess(double got, double want, double magnitude, const mcp26_golden_case *tolerance) {
    const double infinity = from_bits(0x7f800000);
    int got_nan = got != got, want_nan = want != want;
    if (got_nan || want_nan) return got_nan && want_nan ? -infinity : infinity;
    if (got == want) return -infinity; /* equal infinities too */
    if (absolute(want) == infinity || absolute(got) == infinity) return infinity;
    return absolute(got - want) - ((double)tolerance->atol + (double)tolerance->rtol * magnitude);
}

/* A comparison under way. */
typedef struct {
    mcp26_comparison result;
    double worst; /* the largest excess so far */
    int of_mean;  /* the worst is a mean, of the block from worst_index on */
    const mcp26_golden_case *tolerance;
    uint32_t dtype;
} comparing;

/* Compare two numbers of the output, elements or means, at `index`; 1: a mismatch. */
static int differs(comparing *state, uint64_t index, double got, double want, double magnitude, int of_mean) {
    double difference = absolute(got - want);
    double beyond = mcp26_dtype_is_float(state->dtype) ? excess(got, want, magnitude, state->tolerance) : difference;
    if (difference > state->result.max_abs_difference) state->result.max_abs_difference = difference;
    if (beyond > state->worst) {
        state->worst = beyond;
        state->of_mean = of_mean;
        state->result.worst_index = index;
        state->result.worst_got = got;
        state->result.worst_want = want;
    }
    return beyond > 0;
}

static int element_differs(comparing *state, const uint8_t *got, uint64_t i, const uint8_t *want, uint64_t k) {
    const uint32_t dtype = state->dtype, bytes = mcp26_dtype_alignment(dtype);
    if (memcmp(got + i * bytes, want + k * bytes, bytes) == 0) return 0;
    if (is_small_nan(got, dtype, i) && is_small_nan(want, dtype, k)) return 0;
    double a = value_at(got, dtype, i), b = value_at(want, dtype, k);
    return differs(state, i, a, b, absolute(b), 0) || !mcp26_dtype_is_float(dtype);
}

/* Block `b`: one element of it, at a place that the block's number tells, and the mean of all. */
static int block_differs(comparing *state, const uint8_t *got, const mcp26_model_golden_tensor *want, uint64_t b,
                         uint64_t elements) {
    const uint64_t first = b * want->block, left = elements - first, count = left < want->block ? left : want->block;
    double sum = 0, magnitude = 0, expected;
    int wrong = element_differs(state, got, first + mcp26_draw_word(0, b) % count, want->elements, b);
    for (uint64_t i = first; i < first + count; i++) {
        double value = value_at(got, state->dtype, i);
        sum += value;
        magnitude += absolute(value);
    }
    memcpy(&expected, want->means + b * sizeof expected, sizeof expected);
    return differs(state, first, sum / (double)count, expected, magnitude / (double)count, 1) | wrong;
}

mcp26_status mcp26_session_compare_golden(mcp26_session *session, uint32_t golden, uint32_t i,
                                          mcp26_comparison *result) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    mcp26_succeed(&session->error);
    const mcp26_model_golden_case *found = mcp26_model_golden_case_of(session->model, golden);
    if (result != NULL) *result = (mcp26_comparison){0};
    if (found == NULL || i >= found->info.output_count) {
        return mcp26_fail(&session->error, MCP26_ERR_ARGUMENT, "no golden output %u, %u", golden, i);
    }
    const mcp26_model_golden_tensor *want = &found->outputs[i];
    const mcp26_tensor_info *info = &session->model->outputs[want->info.index];
    mcp26_view got;
    (void)mcp26_session_output(session, want->info.index, &got);
    if (got.rank != want->info.rank || memcmp(got.shape, want->info.shape, got.rank * sizeof *got.shape) != 0) {
        return mcp26_fail(&session->error, MCP26_ERR_GOLDEN, "output '%s' has another shape than expected", info->name);
    }
    const uint64_t elements = want->info.bytes / mcp26_dtype_alignment(info->dtype);
    const uint64_t block = want->block != 0 ? want->block : 1, blocks = elements / block + (elements % block != 0);
    comparing state = {.worst = -from_bits(0x7f800000), .tolerance = &found->info, .dtype = info->dtype};
    for (uint64_t b = 0; b < blocks; b++) {
        state.result.mismatches += (uint64_t)(want->block != 0 ? block_differs(&state, got.data, want, b, elements)
                                                               : element_differs(&state, got.data, b, want->info.data, b));
    }
    state.result.elements = blocks;
    if (result != NULL) *result = state.result;
    if (state.result.mismatches == 0) return MCP26_OK;
    return mcp26_fail(&session->error, MCP26_ERR_GOLDEN,
                      "output '%s': %" PRIu64 " of %" PRIu64 " %s differ, the worst %sat %" PRIu64
                      ": got %.9g, expected %.9g",
                      info->name, state.result.mismatches, blocks, want->block != 0 ? "blocks" : "elements",
                      state.of_mean ? "a mean, " : "", state.result.worst_index, state.result.worst_got,
                      state.result.worst_want);
}
