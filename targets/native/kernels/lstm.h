/* lstm.h: the recurrent part of one direction of ONNX's LSTM (gates in the order i, o, f, c).
 *
 * The emitter first runs one product for all time steps, which threads share:
 *
 *     gates[time * batch][4 * hidden] = gemm_f32(X[time * batch][input] x packed W) + (Wb + Rb)
 *     W[4 * hidden][input] packed as tile.h says, K = input, N = 4 * hidden (B[k][n] = W[n][k]); R likewise
 *
 * and then lstm_f32 (one unit: steps follow one another).
 */
#ifndef MCP26_LSTM_H
#define MCP26_LSTM_H

#include "gemm.h"
#include "vmath.h"

typedef v8f (*lstm_activation)(v8f x);

typedef struct {
    int64_t time, batch, hidden;
    int64_t is_reverse;
    int64_t is_coupled;       /* input_forget: f = 1 - i */
    float clip;               /* of the gates before f and g; 0: none */
    lstm_activation f, g, h;  /* ONNX's three: v8f_sigmoid, v8f_tanh, v8f_tanh by default */
    int64_t y_time, y_batch;  /* elements from one time step, one item to the next in y */
} lstm_shape;

MCP26_INLINE v8f lstm_clip(lstm_shape s, v8f x) { return s.clip > 0.0f ? v8f_clip(x, -s.clip, s.clip) : x; }

/* One item's step: gates (from the input) + steps (from h) -> h, c. */
MCP26_INLINE void lstm_cell(lstm_shape s, const float *gates, const float *steps, const float *peephole, float *h,
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
        v8f in = s.f(lstm_clip(s, gate[0]));
        v8f forget = s.is_coupled ? 1.0f - in : s.f(lstm_clip(s, gate[2]));
        cell = v8f_fma(forget, cell, in * s.g(lstm_clip(s, gate[3])));
        if (peephole) gate[1] = v8f_fma(v8f_load(peephole + s.hidden + n, lanes), cell, gate[1]);
        v8f out = s.f(lstm_clip(s, gate[1])) * s.h(cell);
        v8f_store(c + n, cell, lanes);
        v8f_store(h + n, out, lanes);
        if (y) v8f_store(y + n, out, lanes);
    }
}

MCP26_INLINE void lstm_start(int64_t n, const float *initial, float *state) {
    for (int64_t i = 0; i < n; i += 8) {
        int64_t lanes = mcp26_min(8, n - i);
        v8f_store(state + i, initial ? v8f_load(initial + i, lanes) : (v8f)0.0f, lanes);
    }
}

/* Floats of `work` for lstm_f32. */
MCP26_INLINE int64_t lstm_f32_work(lstm_shape s) { return s.batch * 4 * s.hidden; }

/* gates[time * batch][4 * hidden] as above; r packed. May be NULL: peephole[3 * hidden] (i, o, f), lengths[batch]
 * (sequence_lens, 0 ... time), h0 and c0 [batch][hidden], y. h and c [batch][hidden] are the state and at the end Y_h,
 * Y_c; h0 may be h, c0 may be c. Steps beyond an item's length give zeros in y. */
MCP26_INLINE void lstm_f32(lstm_shape s, const float *gates, const float *r, const float *peephole,
                           const int32_t *lengths, const float *h0, const float *c0, float *h, float *c, float *y,
                           float *work) {
    int64_t width = 4 * s.hidden;
    lstm_start(s.batch * s.hidden, h0, h);
    lstm_start(s.batch * s.hidden, c0, c);
    for (int64_t step = 0; step < s.time; step++) {
        gemm_f32(s.batch, width, s.hidden, h, s.hidden, r, work, width, epilogue_none, NULL, 0,
                 gemm_f32_units(s.batch, width, s.hidden));
        for (int64_t b = 0; b < s.batch; b++) {
            int64_t length = lengths ? mcp26_max(0, mcp26_min(lengths[b], s.time)) : s.time;
            if (step >= length) {
                if (y) lstm_start(s.hidden, NULL, y + step * s.y_time + b * s.y_batch);
                continue;
            }
            int64_t t = s.is_reverse ? length - 1 - step : step;
            lstm_cell(s, gates + (t * s.batch + b) * width, work + b * width, peephole, h + b * s.hidden,
                      c + b * s.hidden, y ? y + t * s.y_time + b * s.y_batch : NULL);
        }
    }
}

#endif
