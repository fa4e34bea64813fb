/* recurrent.h: one direction of ONNX's LSTM, GRU and RNN. Gates lie in ONNX's order: i o f c, z r h, and one.
 *
 * First one product for all time steps,
 *
 *     gates[time x batch][G * hidden] = X[time x batch][input] x W + bias    (G gates, by recurrent_input)
 *
 * then lstm_f32, gru_f32 or rnn_f32 (one unit: steps follow one another). W and R are packed as tile.h says with
 * K = input or hidden and N = G * hidden (B[k][n] = W[n][k]).
 */
#ifndef MCP26_RECURRENT_H
#define MCP26_RECURRENT_H

#include "gemm.h"
#include "vmath.h"

typedef v8f (*recurrent_activation)(v8f x);

/* Strides are in elements. */
typedef struct {
    int64_t time, batch, hidden;
    int64_t is_reverse;
    int64_t gate_time, gate_batch;     /* from one time step, one item to the next in gates */
    int64_t y_time, y_batch;           /* in y */
    int64_t first_batch;               /* from one item to the next in h0 and c0 */
    int64_t h_batch, c_batch;          /* in h and c */
    float clip;                        /* of what goes into f and g; 0: none */
    recurrent_activation f, g, h;      /* ONNX's, sigmoid, tanh and tanh by default (RNN has tanh as f) */
    int64_t is_coupled;                /* LSTM's input_forget: f = 1 - i */
    int64_t is_reset_after;            /* GRU's linear_before_reset */
} recurrent_shape;

/* What a step reads. May be NULL: lengths[batch] (sequence_lens, 0 ... time), h0, c0. */
typedef struct {
    const float *gates, *r;
    const int32_t *lengths;
    const float *h0, *c0;
} recurrent_operands;

MCP26_INLINE v8f recurrent_add(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {
    (void)m;
    return acc + v8f_load((const float *)args[0] + n, lanes);
}

/* The product for all time steps. */
MCP26_INLINE void recurrent_input(int64_t rows, int64_t width, int64_t depth, const float *x, const float *w,
                                  const float *bias, float *gates) {
    const void *args[] = {bias};
    gemm_f32(rows, width, depth, x, depth, w, gates, width, recurrent_add, args, 0, gemm_f32_units(rows, width, depth));
}

MCP26_INLINE v8f recurrent_clip(recurrent_shape s, v8f x) {
    return s.clip > 0.0f ? v8f_clip(x, -s.clip, s.clip) : x;
}

/* state[n] = initial[n], or 0. */
MCP26_INLINE void recurrent_start(int64_t n, const float *initial, float *state) {
    for (int64_t i = 0; i < n; i += 8) {
        int64_t lanes = mcp26_min(8, n - i);
        v8f_store(state + i, initial ? v8f_load(initial + i, lanes) : (v8f)0.0f, lanes);
    }
}

MCP26_INLINE void recurrent_starts(recurrent_shape s, const float *initial, float *state, int64_t step) {
    for (int64_t b = 0; b < s.batch; b++) {
        recurrent_start(s.hidden, initial ? initial + b * s.first_batch : NULL, state + b * step);
    }
}

/* The time of item b's step; -1 beyond its length, where y gets zeros. */
MCP26_INLINE int64_t recurrent_time(recurrent_shape s, const int32_t *lengths, int64_t step, int64_t b, float *y) {
    int64_t length = lengths ? mcp26_max(0, mcp26_min(lengths[b], s.time)) : s.time;
    if (step < length) return s.is_reverse ? length - 1 - step : step;
    if (y) recurrent_start(s.hidden, NULL, y + step * s.y_time + b * s.y_batch);
    return -1;
}

/* steps[batch][columns] (rows width apart) = a[batch][hidden] (rows lda apart) x packed. */
MCP26_INLINE void recurrent_step(recurrent_shape s, const float *a, int64_t lda, const float *packed, int64_t columns,
                                 float *steps, int64_t width) {
    gemm_f32(s.batch, columns, s.hidden, a, lda, packed, steps, width, epilogue_none, NULL, 0,
             gemm_f32_units(s.batch, columns, s.hidden));
}

/* ---- LSTM */

/* One item's step: gates (from the input) + steps (from h) -> h, c. */
MCP26_INLINE void lstm_cell(recurrent_shape s, const float *gates, const float *steps, const float *peephole, float *h,
                            float *c, float *y) {
    for (int64_t n = 0; n < s.hidden; n += 8) {
        int64_t lanes = mcp26_min(8, s.hidden - n);
        v8f gate[4], cell = v8f_load(c + n, lanes);
        MCP26_UNROLL for (int64_t j = 0; j < 4; j++) {
            gate[j] = v8f_load(gates + j * s.hidden + n, lanes) + v8f_load(steps + j * s.hidden + n, lanes);
        }
        if (peephole) {
            gate[0] = v8f_fma(v8f_load(peephole + n, lanes), cell, gate[0]);
            gate[2] = v8f_fma(v8f_load(peephole + 2 * s.hidden + n, lanes), cell, gate[2]);
        }
        v8f in = s.f(recurrent_clip(s, gate[0]));
        v8f forget = s.is_coupled ? 1.0f - in : s.f(recurrent_clip(s, gate[2]));
        cell = v8f_fma(forget, cell, in * s.g(recurrent_clip(s, gate[3])));
        if (peephole) gate[1] = v8f_fma(v8f_load(peephole + s.hidden + n, lanes), cell, gate[1]);
        v8f out = s.f(recurrent_clip(s, gate[1])) * s.h(cell);
        v8f_store(c + n, cell, lanes);
        v8f_store(h + n, out, lanes);
        if (y) v8f_store(y + n, out, lanes);
    }
}

/* Floats of `work`, by operator. */
MCP26_INLINE int64_t lstm_f32_work(recurrent_shape s) { return s.batch * 4 * s.hidden; }
MCP26_INLINE int64_t gru_f32_work(recurrent_shape s) { return s.batch * 4 * s.hidden; }
MCP26_INLINE int64_t rnn_f32_work(recurrent_shape s) { return s.batch * s.hidden; }

/* h and c are the state and at the end Y_h and Y_c; h0 may be h, c0 may be c. peephole[3 * hidden] (i, o, f) and y may
 * be NULL. */
MCP26_INLINE void lstm_f32(recurrent_shape s, recurrent_operands from, const float *peephole, float *h, float *c,
                           float *y, float *work) {
    int64_t width = 4 * s.hidden;
    recurrent_starts(s, from.h0, h, s.h_batch);
    recurrent_starts(s, from.c0, c, s.c_batch);
    for (int64_t step = 0; step < s.time; step++) {
        recurrent_step(s, h, s.h_batch, from.r, width, work, width);
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t t = recurrent_time(s, from.lengths, step, b, y);
            if (t < 0) continue;
            lstm_cell(s, from.gates + t * s.gate_time + b * s.gate_batch, work + b * width, peephole, h + b * s.h_batch,
                      c + b * s.c_batch, y ? y + t * s.y_time + b * s.y_batch : NULL);
        }
    }
}

/* ---- GRU */

/* h = (1 - z) new + z h with z from steps, and `new` = g(gates + what steps and the reset gate make of h). */
MCP26_INLINE void gru_cell(recurrent_shape s, const float *gates, const float *steps, const float *bias, float *h,
                           float *y) {
    for (int64_t n = 0; n < s.hidden; n += 8) {
        int64_t lanes = mcp26_min(8, s.hidden - n);
        v8f old = v8f_load(h + n, lanes), update = v8f_load(steps + 2 * s.hidden + n, lanes);
        v8f z = s.f(recurrent_clip(s, v8f_load(gates + n, lanes) + v8f_load(steps + n, lanes)));
        if (s.is_reset_after) {
            v8f reset = v8f_load(gates + s.hidden + n, lanes) + v8f_load(steps + s.hidden + n, lanes);
            if (bias) update += v8f_load(bias + n, lanes);
            update = update * s.f(recurrent_clip(s, reset));
        }
        update = s.g(recurrent_clip(s, v8f_load(gates + 2 * s.hidden + n, lanes) + update));
        v8f out = v8f_fma(z, old - update, update);
        v8f_store(h + n, out, lanes);
        if (y) v8f_store(y + n, out, lanes);
    }
}

/* reset[n] = r h */
MCP26_INLINE void gru_reset(recurrent_shape s, const float *gates, const float *steps, const float *h, float *reset) {
    for (int64_t n = 0; n < s.hidden; n += 8) {
        int64_t lanes = mcp26_min(8, s.hidden - n);
        v8f gate = v8f_load(gates + s.hidden + n, lanes) + v8f_load(steps + s.hidden + n, lanes);
        v8f_store(reset + n, s.f(recurrent_clip(s, gate)) * v8f_load(h + n, lanes), lanes);
    }
}

/* With is_reset_after, r is packed as one matrix and bias[hidden] (may be NULL) is added to h's product before the
 * reset gate. Otherwise r_new holds the last third of R's columns, r the others. */
MCP26_INLINE void gru_f32(recurrent_shape s, recurrent_operands from, const float *r_new, const float *bias, float *h,
                          float *y, float *work) {
    int64_t width = 3 * s.hidden;
    float *reset = work + s.batch * width;
    recurrent_starts(s, from.h0, h, s.h_batch);
    for (int64_t step = 0; step < s.time; step++) {
        recurrent_step(s, h, s.h_batch, from.r, s.is_reset_after ? width : 2 * s.hidden, work, width);
        if (!s.is_reset_after) {
            for (int64_t b = 0; b < s.batch; b++) {
                int64_t t = mcp26_max(0, recurrent_time(s, from.lengths, step, b, NULL));
                gru_reset(s, from.gates + t * s.gate_time + b * s.gate_batch, work + b * width, h + b * s.h_batch,
                          reset + b * s.hidden);
            }
            recurrent_step(s, reset, s.hidden, r_new, s.hidden, work + 2 * s.hidden, width);
        }
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t t = recurrent_time(s, from.lengths, step, b, y);
            if (t < 0) continue;
            gru_cell(s, from.gates + t * s.gate_time + b * s.gate_batch, work + b * width, bias, h + b * s.h_batch,
                     y ? y + t * s.y_time + b * s.y_batch : NULL);
        }
    }
}

/* ---- RNN: h = f(gates + steps) */

MCP26_INLINE void rnn_f32(recurrent_shape s, recurrent_operands from, float *h, float *y, float *work) {
    recurrent_starts(s, from.h0, h, s.h_batch);
    for (int64_t step = 0; step < s.time; step++) {
        recurrent_step(s, h, s.h_batch, from.r, s.hidden, work, s.hidden);
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t t = recurrent_time(s, from.lengths, step, b, y);
            if (t < 0) continue;
            const float *gates = from.gates + t * s.gate_time + b * s.gate_batch;
            for (int64_t n = 0; n < s.hidden; n += 8) {
                int64_t lanes = mcp26_min(8, s.hidden - n);
                v8f out = v8f_load(gates + n, lanes) + v8f_load(work + b * s.hidden + n, lanes);
                out = s.f(recurrent_clip(s, out));
                v8f_store(h + b * s.h_batch + n, out, lanes);
                if (y) v8f_store(y + t * s.y_time + b * s.y_batch + n, out, lanes);
            }
        }
    }
}

#endif
