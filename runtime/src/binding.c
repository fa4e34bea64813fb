/* Fits a session to the tensors that its caller binds: checks, symbols, plan, output sizes. */
#include "session.h"

#include "status.h"
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

/* Shapes as the metadata has them: -1 where a size is not known yet. */
static void reset_shapes(mcp26_tensor *tensors, const mcp26_tensor_info *infos, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t d = 0; d < infos[i].rank; d++) tensors[i].shape[d] = infos[i].dims[d];
    }
}

/* Let an input hold its default value. */
static void bind_default(mcp26_session *session, const mcp26_model_default *value) {
    mcp26_tensor *tensor = &session->inputs[value->input];
    tensor->data = (uint8_t *)(uintptr_t)value->data; /* compiled code only reads inputs */
    tensor->capacity = value->bytes;
    for (uint32_t d = 0; d < value->rank; d++) {
        session->stale |= tensor->shape[d] != value->shape[d];
        tensor->shape[d] = value->shape[d];
    }
    session->unbound_count -= session->bound[value->input] == 0;
    session->bound[value->input] = 1;
}

void mcp26_session_init_bindings(mcp26_session *session) {
    const mcp26_model *model = session->model;
    const mcp26_model_info *info = &model->info;
    reset_shapes(session->inputs, model->inputs, info->input_count);
    reset_shapes(session->outputs, model->outputs, info->output_count);
    for (uint32_t i = 0; i < info->output_count; i++) {
        session->outputs[i].data = session->owned[i].data;
        session->outputs[i].capacity = session->owned[i].capacity;
    }
    session->unbound_count = info->input_count;
    for (uint32_t i = 0; i < model->default_count; i++) bind_default(session, &model->defaults[i]);
    session->stale = 1;
}

/* The checks of one dimension against the metadata. */
static mcp26_status check_dim(mcp26_session *session, const mcp26_tensor_info *info, uint32_t d, int64_t size) {
    if (info->dims[d] >= 0 && size != info->dims[d]) {
        return mcp26_fail(&session->error, MCP26_ERR_SHAPE,
                          "input '%s', dimension %u: expected %" PRId64 ", got %" PRId64, info->name, d, info->dims[d],
                          size);
    }
    if (size < 0) {
        return mcp26_fail(&session->error, MCP26_ERR_SHAPE, "input '%s', dimension %u: negative size %" PRId64,
                          info->name, d, size);
    }
    if (info->dims[d] >= 0 || info->dim_symbols[d] < 0) return MCP26_OK;
    const mcp26_symbol_info *symbol = &session->model->symbols[info->dim_symbols[d]];
    if (size < symbol->min || (symbol->max >= 0 && size > symbol->max)) {
        mcp26_fail(&session->error, MCP26_ERR_SYMBOL, "input '%s', dimension %u: %s must be at least %" PRId64,
                   info->name, d, symbol->name, symbol->min);
        if (symbol->max >= 0) mcp26_append(&session->error, " and at most %" PRId64, symbol->max);
        mcp26_append(&session->error, ", got %" PRId64, size);
        return MCP26_ERR_SYMBOL;
    }
    return MCP26_OK;
}

mcp26_status mcp26_session_bind_input(mcp26_session *session, uint32_t index, uint32_t dtype, const int64_t *shape,
                                      uint32_t rank, const void *data, uint64_t bytes) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    mcp26_error *error = &session->error;
    mcp26_succeed(error);
    const mcp26_tensor_info *info = mcp26_model_input(session->model, index);
    if (info == NULL) {
        return mcp26_fail(error, MCP26_ERR_ARGUMENT, "input %u: the model has %u", index,
                          session->model->info.input_count);
    }
    if (info->has_default && shape == NULL && data == NULL) {
        const mcp26_model_default *value = session->model->defaults;
        while (value->input != index) value++;
        bind_default(session, value);
        return MCP26_OK;
    }
    if (dtype != MCP26_UNDEFINED && dtype != info->dtype) {
        return mcp26_fail(error, MCP26_ERR_DTYPE, "input '%s': expected %s, got %s", info->name,
                          mcp26_dtype_name(info->dtype), mcp26_dtype_name(dtype));
    }
    if (rank != info->rank) {
        mcp26_fail(error, MCP26_ERR_RANK, "input '%s': expected rank %u (", info->name, info->rank);
        mcp26_append_dims(error, info);
        mcp26_append(error, "), got rank %u", rank);
        return MCP26_ERR_RANK;
    }
    if (rank > 0 && shape == NULL) return mcp26_fail(error, MCP26_ERR_ARGUMENT, "input '%s': no shape", info->name);
    for (uint32_t d = 0; d < rank; d++) {
        mcp26_status status = check_dim(session, info, d, shape[d]);
        if (status != MCP26_OK) return status;
    }
    int overflow;
    uint64_t needed = mcp26_tensor_bytes(shape, rank, info->dtype, &overflow);
    if (overflow || bytes != needed) {
        return mcp26_fail(error, MCP26_ERR_BYTES,
                          "input '%s': the shape takes %" PRIu64 " bytes, the buffer has %" PRIu64, info->name,
                          overflow ? UINT64_MAX : needed, bytes);
    }
    if (data == NULL && bytes != 0) return mcp26_fail(error, MCP26_ERR_ARGUMENT, "input '%s': no data", info->name);
    if ((uintptr_t)data % mcp26_dtype_alignment(info->dtype) != 0) {
        return mcp26_fail(error, MCP26_ERR_ALIGNMENT, "input '%s': not aligned to %u bytes", info->name,
                          mcp26_dtype_alignment(info->dtype));
    }

    mcp26_tensor *tensor = &session->inputs[index];
    tensor->data = (uint8_t *)(uintptr_t)data; /* compiled code only reads inputs */
    tensor->capacity = bytes;
    for (uint32_t d = 0; d < rank; d++) {
        session->stale |= tensor->shape[d] != shape[d];
        tensor->shape[d] = shape[d];
    }
    session->unbound_count -= session->bound[index] == 0;
    session->bound[index] = 1;
    return MCP26_OK;
}

mcp26_status mcp26_session_bind_output(mcp26_session *session, uint32_t index, void *data, uint64_t capacity) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    mcp26_error *error = &session->error;
    mcp26_succeed(error);
    const mcp26_tensor_info *info = mcp26_model_output(session->model, index);
    if (info == NULL) {
        return mcp26_fail(error, MCP26_ERR_ARGUMENT, "output %u: the model has %u", index,
                          session->model->info.output_count);
    }
    if ((uintptr_t)data % mcp26_dtype_alignment(info->dtype) != 0) {
        return mcp26_fail(error, MCP26_ERR_ALIGNMENT, "output '%s': not aligned to %u bytes", info->name,
                          mcp26_dtype_alignment(info->dtype));
    }
    session->outputs[index].data = data != NULL ? data : session->owned[index].data;
    session->outputs[index].capacity = data != NULL ? capacity : session->owned[index].capacity;
    session->outputs_stale = 1;
    return MCP26_OK;
}

/* The input dimension that gave a symbol its value. */
static void append_source(mcp26_session *session, int32_t symbol) {
    const mcp26_model *model = session->model;
    for (uint32_t i = 0; i < model->info.input_count; i++) {
        for (uint32_t d = 0; d < model->inputs[i].rank; d++) {
            if (model->inputs[i].dim_symbols[d] != symbol) continue;
            mcp26_append(&session->error, ", but %" PRId64 " in input '%s', dimension %u", session->inputs[i].shape[d],
                         model->inputs[i].name, d);
            return;
        }
    }
}

/* Symbols from input shapes; all places of one symbol must agree. Those that only steps set begin at their least value.
 */
static mcp26_status resolve_symbols(mcp26_session *session) {
    const mcp26_model *model = session->model;
    int64_t *symbols = session->env.symbols;
    for (uint32_t s = 0; s < model->info.symbol_count; s++) symbols[s] = -1;
    for (uint32_t i = 0; i < model->info.input_count; i++) {
        const mcp26_tensor_info *info = &model->inputs[i];
        for (uint32_t d = 0; d < info->rank; d++) {
            int32_t symbol = info->dim_symbols[d];
            if (symbol < 0) continue;
            int64_t size = session->inputs[i].shape[d];
            if (symbols[symbol] >= 0 && symbols[symbol] != size) {
                mcp26_fail(&session->error, MCP26_ERR_SHAPE, "%s is %" PRId64 " in input '%s', dimension %u",
                           model->symbols[symbol].name, size, info->name, d);
                append_source(session, symbol);
                return MCP26_ERR_SHAPE;
            }
            symbols[symbol] = size;
        }
    }
    session->data_symbols = 0;
    for (uint32_t s = 0; s < model->info.symbol_count; s++) {
        if (symbols[s] >= 0) continue;
        symbols[s] = model->symbols[s].min;
        session->data_symbols = 1;
    }
    return MCP26_OK;
}

static mcp26_status missing_inputs(mcp26_session *session) {
    mcp26_fail(&session->error, MCP26_ERR_MISSING_INPUT, "no data bound to");
    const char *separator = " ";
    for (uint32_t i = 0; i < session->model->info.input_count; i++) {
        if (session->bound[i]) continue;
        mcp26_append(&session->error, "%sinput '%s'", separator, session->model->inputs[i].name);
        separator = ", ";
    }
    return MCP26_ERR_MISSING_INPUT;
}

static mcp26_status plan(mcp26_session *session) {
    mcp26_env *env = &session->env;
    reset_shapes(session->outputs, session->model->outputs, session->model->info.output_count);
    env->plan_bytes = 0;
    env->fault = (mcp26_fault){0};
    int32_t code = session->model->plan(env, 0);
    if (code < 0) return mcp26_session_step_failed(session, 0, code);
    if (env->plan_bytes <= env->arena_bytes) return MCP26_OK;
    if (!session->model->info.unbounded) {
        return mcp26_fail(&session->error, MCP26_ERR_STEP,
                          "the plan needs %" PRIu64 " bytes, the metadata states %" PRIu64, env->plan_bytes,
                          env->arena_bytes);
    }
    code = mcp26_session_grow(env, env->plan_bytes);
    return code < 0 ? mcp26_session_step_failed(session, 0, code) : MCP26_OK;
}

static mcp26_status fit_output(mcp26_session *session, uint32_t i) {
    const mcp26_tensor_info *info = &session->model->outputs[i];
    mcp26_tensor *tensor = &session->outputs[i];
    mcp26_owned_output *owned = &session->owned[i];
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] == -1) return MCP26_OK; /* a step will tell */
    }
    int overflow;
    uint64_t needed = mcp26_tensor_bytes(tensor->shape, tensor->rank, info->dtype, &overflow);
    if (!overflow && needed <= tensor->capacity) return MCP26_OK;
    if (overflow || tensor->data != owned->data || info->max_bytes != 0) {
        return mcp26_fail(&session->error, MCP26_ERR_BYTES,
                          "output '%s' takes %" PRIu64 " bytes, its buffer has %" PRIu64, info->name,
                          overflow ? UINT64_MAX : needed, tensor->capacity);
    }
    uint64_t capacity = needed + needed / 2; /* so that an output that gets longer each run is not grown each run */
    uint8_t *data = mcp26_session_grow_memory(session, capacity);
    if (data == NULL) {
        return mcp26_fail(&session->error, MCP26_ERR_MEMORY, "no memory for output '%s', %" PRIu64 " bytes", info->name,
                          needed);
    }
    if (owned->grown != 0) {
        mcp26_os_free(owned->data, owned->grown);
        session->grown_bytes -= owned->grown;
    }
    *owned = (mcp26_owned_output){data, capacity, capacity};
    tensor->data = data;
    tensor->capacity = capacity;
    return MCP26_OK;
}

mcp26_status mcp26_session_fit_outputs(mcp26_session *session) {
    for (uint32_t i = 0; i < session->model->info.output_count; i++) {
        mcp26_status status = fit_output(session, i);
        if (status != MCP26_OK) return status;
    }
    session->outputs_stale = 0;
    return MCP26_OK;
}

/* Symbols, sizes and places of all tensors but the outputs, where inputs changed. */
static mcp26_status resolve(mcp26_session *session) {
    if (session->unbound_count != 0) return missing_inputs(session);
    if (!session->stale && !session->data_symbols) return MCP26_OK;
    session->stale = 1; /* until all of it succeeded */
    mcp26_status status = resolve_symbols(session);
    if (status == MCP26_OK) status = plan(session);
    if (status != MCP26_OK) return status;
    session->stale = 0;
    session->outputs_stale = 1;
    return MCP26_OK;
}

mcp26_status mcp26_session_prepare(mcp26_session *session) {
    mcp26_status status = resolve(session);
    return status == MCP26_OK && session->outputs_stale ? mcp26_session_fit_outputs(session) : status;
}

mcp26_status mcp26_session_plan(mcp26_session *session) {
    if (session == NULL) return MCP26_ERR_ARGUMENT;
    mcp26_succeed(&session->error);
    session->stale = 1; /* shapes that steps of the last run found are not known now */
    return resolve(session);
}

mcp26_status mcp26_session_output(const mcp26_session *session, uint32_t index, mcp26_view *output) {
    if (session == NULL || output == NULL || index >= session->model->info.output_count) return MCP26_ERR_ARGUMENT;
    const mcp26_tensor *tensor = &session->outputs[index];
    uint32_t dtype = session->model->outputs[index].dtype;
    int overflow;
    uint64_t bytes = mcp26_tensor_bytes(tensor->shape, tensor->rank, dtype, &overflow);
    *output = (mcp26_view){tensor->data, tensor->shape, bytes, tensor->rank, dtype};
    return MCP26_OK;
}

mcp26_status mcp26_session_output_shape(const mcp26_session *session, uint32_t index, int64_t *shape) {
    mcp26_view output;
    mcp26_status status = mcp26_session_output(session, index, &output);
    if (status != MCP26_OK) return status;
    if (output.rank == 0) return MCP26_OK;
    if (shape == NULL) return MCP26_ERR_ARGUMENT;
    memcpy(shape, output.shape, output.rank * sizeof *shape);
    return MCP26_OK;
}
