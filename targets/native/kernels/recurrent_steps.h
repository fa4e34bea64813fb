/* recurrent_steps.h: the step-by-step part of recurrent.h, which includes it once a type. T is the type, V eight of it,
 * NAME(f) is f with the type's suffix, V_(f) V's function f of simd.h.
 */

typedef V (*NAME(recurrent_activation))(V x);

/* Strides are in elements. */
typedef struct {
    int64_t time, batch, hidden;
    int64_t is_reverse;
    int64_t gate_time, gate_batch;       /* from one time step, one item to the next in gates */
    int64_t y_time, y_batch;             /* in y */
    int64_t first_batch;                 /* from one item to the next in h0 and c0 */
    int64_t h_batch, c_batch;            /* in h and c */
    T clip;                              /* of what goes into f and g; 0: none */
    NAME(recurrent_activation) f, g, h;  /* ONNX's, sigmoid, tanh and tanh by default (RNN has tanh as f) */
    int64_t is_coupled;                  /* LSTM's input_forget: f = 1 - i */
    int64_t is_reset_after;              /* GRU's linear_before_reset */
} NAME(recurrent_shape);

/* What a step reads. May be NULL: lengths[batch] (sequence_lens, 0 ... time), h0, c0. */
typedef struct {
    const T *gates, *r;
    const int32_t *lengths;
    const T *h0, *c0;
} NAME(recurrent_operands);

/* The bias of the gates of b[2][columns], W's and R's: their sum in the first `joined` columns, W's in the others. */
MCP26_INLINE void NAME(recurrent_bias)(int64_t columns, int64_t joined, const T *b, T *bias) {
    for (int64_t n = 0; n < columns; n++) bias[n] = n < joined ? b[n] + b[columns + n] : b[n];
}

MCP26_INLINE V NAME(recurrent_clip)(NAME(recurrent_shape) s, V x) {
    return s.clip > 0 ? V_(clip)(x, -s.clip, s.clip) : x;
}

/* state[n] = initial[n], or 0. */
MCP26_INLINE void NAME(recurrent_start)(int64_t n, const T *initial, T *state) {
    for (int64_t i = 0; i < n; i += 8) {
        int64_t lanes = mcp26_min(8, n - i);
        V_(store)(state + i, initial ? V_(load)(initial + i, lanes) : (V)(T)0, lanes);
    }
}

MCP26_INLINE void NAME(recurrent_starts)(NAME(recurrent_shape) s, const T *initial, T *state, int64_t step) {
    for (int64_t b = 0; b < s.batch; b++) {
        NAME(recurrent_start)(s.hidden, initial ? initial + b * s.first_batch : NULL, state + b * step);
    }
}

/* The steps of item b. */
MCP26_INLINE int64_t NAME(recurrent_length)(NAME(recurrent_shape) s, const int32_t *lengths, int64_t b) {
    return lengths ? mcp26_max(0, mcp26_min(lengths[b], s.time)) : s.time;
}

/* The time of item b's step; -1 beyond its length, where y gets zeros. */
MCP26_INLINE int64_t NAME(recurrent_time)(NAME(recurrent_shape) s, const int32_t *lengths, int64_t step, int64_t b,
                                          T *y) {
    int64_t length = NAME(recurrent_length)(s, lengths, b);
    if (step < length) return s.is_reverse ? length - 1 - step : step;
    if (y) NAME(recurrent_start)(s.hidden, NULL, y + step * s.y_time + b * s.y_batch);
    return -1;
}

/* An item without steps has no last output: its state becomes zero, as in ONNX Runtime. */
MCP26_INLINE void NAME(recurrent_ends)(NAME(recurrent_shape) s, const int32_t *lengths, T *state, int64_t step) {
    for (int64_t b = 0; b < s.batch; b++) {
        if (NAME(recurrent_length)(s, lengths, b) == 0) NAME(recurrent_start)(s.hidden, NULL, state + b * step);
    }
}

/* Eight sums of one gate: the input's part and the state's. */
MCP26_INLINE V NAME(recurrent_gate)(const T *gates, const T *steps, int64_t n, int64_t lanes) {
    return V_(load)(gates + n, lanes) + V_(load)(steps + n, lanes);
}

/* ---- LSTM */

/* One item's step: gates (from the input) + steps (from h) -> h, c. */
MCP26_INLINE void NAME(lstm_cell)(NAME(recurrent_shape) s, const T *gates, const T *steps, const T *peephole, T *h, T *c,
                                  T *y) {
    for (int64_t n = 0; n < s.hidden; n += 8) {
        int64_t lanes = mcp26_min(8, s.hidden - n);
        V gate[4], cell = V_(load)(c + n, lanes);
        MCP26_UNROLL for (int64_t j = 0; j < 4; j++) {
            gate[j] = NAME(recurrent_gate)(gates, steps, j * s.hidden + n, lanes);
        }
        if (peephole) {
            gate[0] = V_(fma)(V_(load)(peephole + n, lanes), cell, gate[0]);
            gate[2] = V_(fma)(V_(load)(peephole + 2 * s.hidden + n, lanes), cell, gate[2]);
        }
        V in = s.f(NAME(recurrent_clip)(s, gate[0]));
        V forget = s.is_coupled ? (T)1 - in : s.f(NAME(recurrent_clip)(s, gate[2]));
        cell = V_(fma)(forget, cell, in * s.g(NAME(recurrent_clip)(s, gate[3])));
        if (peephole) gate[1] = V_(fma)(V_(load)(peephole + s.hidden + n, lanes), cell, gate[1]);
        V out = s.f(NAME(recurrent_clip)(s, gate[1])) * s.h(cell);
        V_(store)(c + n, cell, lanes);
        V_(store)(h + n, out, lanes);
        if (y) V_(store)(y + n, out, lanes);
    }
}

/* h and c are the state and at the end Y_h and Y_c; h0 may be h, c0 may be c. peephole[3 * hidden] (i, o, f) and y may
 * be NULL. `work` holds batch * 4 * hidden elements. */
MCP26_INLINE void NAME(lstm)(NAME(recurrent_shape) s, NAME(recurrent_operands) from, const T *peephole, T *h, T *c, T *y,
                             T *work) {
    int64_t width = 4 * s.hidden;
    NAME(recurrent_starts)(s, from.h0, h, s.h_batch);
    NAME(recurrent_starts)(s, from.c0, c, s.c_batch);
    for (int64_t step = 0; step < s.time; step++) {
        NAME(recurrent_turn)(step, s.batch, width, s.hidden, h, s.h_batch, from.r, work, width);
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t t = NAME(recurrent_time)(s, from.lengths, step, b, y);
            if (t < 0) continue;
            NAME(lstm_cell)(s, from.gates + t * s.gate_time + b * s.gate_batch, work + b * width, peephole,
                            h + b * s.h_batch, c + b * s.c_batch, y ? y + t * s.y_time + b * s.y_batch : NULL);
        }
    }
    NAME(recurrent_ends)(s, from.lengths, h, s.h_batch);
    NAME(recurrent_ends)(s, from.lengths, c, s.c_batch);
}

/* ---- GRU */

/* h = (1 - z) new + z h with z from steps, and `new` = g(gates + what steps and the reset gate make of h). */
MCP26_INLINE void NAME(gru_cell)(NAME(recurrent_shape) s, const T *gates, const T *steps, const T *bias, T *h, T *y) {
    for (int64_t n = 0; n < s.hidden; n += 8) {
        int64_t lanes = mcp26_min(8, s.hidden - n);
        V old = V_(load)(h + n, lanes), update = V_(load)(steps + 2 * s.hidden + n, lanes);
        V z = s.f(NAME(recurrent_clip)(s, NAME(recurrent_gate)(gates, steps, n, lanes)));
        if (s.is_reset_after) {
            V reset = NAME(recurrent_gate)(gates, steps, s.hidden + n, lanes);
            if (bias) update += V_(load)(bias + n, lanes);
            update = update * s.f(NAME(recurrent_clip)(s, reset));
        }
        update = s.g(NAME(recurrent_clip)(s, V_(load)(gates + 2 * s.hidden + n, lanes) + update));
        V out = V_(fma)(z, old - update, update);
        V_(store)(h + n, out, lanes);
        if (y) V_(store)(y + n, out, lanes);
    }
}

/* reset[n] = r h */
MCP26_INLINE void NAME(gru_reset)(NAME(recurrent_shape) s, const T *gates, const T *steps, const T *h, T *reset) {
    for (int64_t n = 0; n < s.hidden; n += 8) {
        int64_t lanes = mcp26_min(8, s.hidden - n);
        V gate = NAME(recurrent_gate)(gates, steps, s.hidden + n, lanes);
        V_(store)(reset + n, s.f(NAME(recurrent_clip)(s, gate)) * V_(load)(h + n, lanes), lanes);
    }
}

/* With is_reset_after, r is packed as one matrix and bias[hidden] (may be NULL) is added to h's product before the
 * reset gate. Otherwise r_new holds the last third of R's columns, r the others. `work` holds batch * 4 * hidden
 * elements. */
MCP26_INLINE void NAME(gru)(NAME(recurrent_shape) s, NAME(recurrent_operands) from, const T *r_new, const T *bias, T *h,
                            T *y, T *work) {
    int64_t width = 3 * s.hidden, columns = s.is_reset_after ? width : 2 * s.hidden;
    T *reset = work + s.batch * width;
    NAME(recurrent_starts)(s, from.h0, h, s.h_batch);
    for (int64_t step = 0; step < s.time; step++) {
        NAME(recurrent_turn)(step, s.batch, columns, s.hidden, h, s.h_batch, from.r, work, width);
        if (!s.is_reset_after) {
            for (int64_t b = 0; b < s.batch; b++) {
                int64_t t = mcp26_max(0, NAME(recurrent_time)(s, from.lengths, step, b, NULL));
                NAME(gru_reset)(s, from.gates + t * s.gate_time + b * s.gate_batch, work + b * width,
                                h + b * s.h_batch, reset + b * s.hidden);
            }
            NAME(recurrent_turn)(step, s.batch, s.hidden, s.hidden, reset, s.hidden, r_new, work + 2 * s.hidden, width);
        }
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t t = NAME(recurrent_time)(s, from.lengths, step, b, y);
            if (t < 0) continue;
            NAME(gru_cell)(s, from.gates + t * s.gate_time + b * s.gate_batch, work + b * width, bias,
                           h + b * s.h_batch, y ? y + t * s.y_time + b * s.y_batch : NULL);
        }
    }
    NAME(recurrent_ends)(s, from.lengths, h, s.h_batch);
}

/* ---- RNN: h = f(gates + steps) */

/* `work` holds batch * hidden elements. */
MCP26_INLINE void NAME(rnn)(NAME(recurrent_shape) s, NAME(recurrent_operands) from, T *h, T *y, T *work) {
    NAME(recurrent_starts)(s, from.h0, h, s.h_batch);
    for (int64_t step = 0; step < s.time; step++) {
        NAME(recurrent_turn)(step, s.batch, s.hidden, s.hidden, h, s.h_batch, from.r, work, s.hidden);
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t t = NAME(recurrent_time)(s, from.lengths, step, b, y);
            if (t < 0) continue;
            const T *gates = from.gates + t * s.gate_time + b * s.gate_batch, *steps = work + b * s.hidden;
            for (int64_t n = 0; n < s.hidden; n += 8) {
                int64_t lanes = mcp26_min(8, s.hidden - n);
                V out = s.f(NAME(recurrent_clip)(s, NAME(recurrent_gate)(gates, steps, n, lanes)));
                V_(store)(h + b * s.h_batch + n, out, lanes);
                if (y) V_(store)(y + t * s.y_time + b * s.y_batch + n, out, lanes);
            }
        }
    }
    NAME(recurrent_ends)(s, from.lengths, h, s.h_batch);
}

#undef T
#undef V
#undef NAME
#undef V_
