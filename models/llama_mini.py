"""A small decoder of the Llama family (Touvron et al., 2023, arXiv:2302.13971) as it exports for generation, seeded.

Grouped queries, rotary positions, RMS normalisation and SwiGLU, all from their parts. Keys and values of the tokens so
far go in as ``past_key_values`` and come out longer as ``present``: a prompt is one run with an empty past, then each
token is a run of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GraphBuilder, Size

if TYPE_CHECKING:
    import onnx

LAYERS, HIDDEN, INNER = 4, 192, 512
HEADS, KEY_HEADS, EACH = 6, 2, 32
VOCABULARY, THETA = 2048, 10000.0


def build(seed: int = 0, batch: Size = "batch_size") -> onnx.ModelProto:
    """The network; sizes are symbolic: ``sequence_length`` new tokens after ``past_sequence_length`` ones.

    Inputs: ``input_ids`` and ``position_ids`` int64 [batch, sequence], ``attention_mask`` int64 [batch, past +
    sequence], and a layer ``past_key_values.N.key`` and ``.value`` float32 [batch, 2, past, 32]. Outputs: ``logits``
    float32 [batch, sequence, 2048], and a layer ``present.N.key`` and ``.value`` [batch, 2, past + sequence, 32].
    2.4 million parameters.
    """
    from onnx import TensorProto

    b = _Builder(np.random.default_rng(seed))
    b.prepare()
    x = b.node("Gather", "model/embed_tokens/Gather", [b.embedding, "input_ids"])
    for layer in range(LAYERS):
        x = b.layer(x, layer)
    x = b.rms_norm(x, "model/norm")
    head = b.weight("lm_head.weight", b.rng.standard_normal((HIDDEN, VOCABULARY)) * (2 / np.sqrt(HIDDEN)))
    b.node("MatMul", "lm_head/MatMul", [x, head], "logits")

    sequence, past = "sequence_length", "past_sequence_length"
    total = f"{past} + {sequence}"
    integers = {"input_ids": [batch, sequence], "attention_mask": [batch, total], "position_ids": [batch, sequence]}
    caches = [f"{layer}.{kind}" for layer in range(LAYERS) for kind in ("key", "value")]
    return b.model(
        "llama_mini",
        {**integers, **{f"past_key_values.{each}": [batch, KEY_HEADS, past, EACH] for each in caches}},
        {
            "logits": [batch, sequence, VOCABULARY],
            **{f"present.{each}": [batch, KEY_HEADS, total, EACH] for each in caches},
        },
        input_types=dict.fromkeys(integers, TensorProto.INT64),
    )


@dataclass
class _Builder(GraphBuilder):
    embedding: str = ""
    batch: str = ""
    sequence: str = ""
    mask: str = ""
    cosine: str = ""
    sine: str = ""

    def prepare(self) -> None:
        """What all layers share: sizes, the mask to add to scores, and the angles of the positions."""
        self.embedding = self.weight("model.embed_tokens.weight", self.rng.standard_normal((VOCABULARY, HIDDEN)))
        self.batch = self.size("input_ids", "model/batch", 0)
        self.sequence = self.size("input_ids", "model/sequence", 1)
        past = self.size("past_key_values.0.key", "model/past", 2)
        total = self.node("Add", "model/Add", [past, self.sequence])
        self.mask = self._mask(past, total)
        self.cosine, self.sine = self._angles()

    def _mask(self, past: str, total: str) -> str:
        """The lowest float where a key comes after its query or is padding, else 0: [batch, 1, sequence, total]."""
        one, zero = self.constant("model/one", 1), self.constant("model/zero", 0)
        rows = self.node("Range", "model/Range", [past, total, one])
        column = self.node("Reshape", "model/Reshape", [rows, self.constant("model/column", [-1, 1])])
        keys = self.node("Range", "model/Range_1", [zero, total, one])
        later = self.node("Cast", "model/Cast", [self.node("Greater", "model/Greater", [keys, column])], to=1)
        lowest = self.constant("model/lowest", np.finfo(np.float32).min, np.float32)
        causal = self.node("Mul", "model/Mul", [later, lowest])
        causal = self.node("Unsqueeze", "model/Unsqueeze", [causal, self.constant("model/axes", [0, 1])])
        shape = self.sizes("model/mask", self.batch, 1, self.sequence, total)
        causal = self.node("Expand", "model/Expand", [causal, shape])
        present = self.node("Unsqueeze", "model/Unsqueeze_1", ["attention_mask", self.constant("model/axes_1", [1, 2])])
        absent = self.node("Equal", "model/Equal", [present, zero])
        return self.node("Where", "model/Where", [absent, lowest, causal])

    def _angles(self) -> tuple[str, str]:
        """Cosine and sine of position times frequency, each frequency twice: [batch, 1, sequence, 32]."""
        name = "model/rotary_emb"
        frequencies = THETA ** -(np.arange(0, EACH, 2) / EACH)
        inverse = self.weight(f"{name}.inv_freq", frequencies[None, :, None])
        shape = self.sizes(f"{name}/shape", self.batch, EACH // 2, 1)
        inverse = self.node("Expand", f"{name}/Expand", [inverse, shape])
        positions = self.node("Unsqueeze", f"{name}/Unsqueeze", ["position_ids", self.constant(f"{name}/axes", [1])])
        positions = self.node("Cast", f"{name}/Cast", [positions], to=1)
        angles = self.node("MatMul", f"{name}/MatMul", [inverse, positions])
        angles = self.node("Transpose", f"{name}/Transpose", [angles], perm=[0, 2, 1])
        angles = self.node("Concat", f"{name}/Concat", [angles, angles], axis=-1)
        axes = self.constant(f"{name}/axes_1", [1])
        cosine, sine = (
            self.node("Unsqueeze", f"{name}/{op}/Unsqueeze", [self.node(op, f"{name}/{op}", [angles]), axes])
            for op in ("Cos", "Sin")
        )
        return cosine, sine

    def layer(self, x: str, layer: int) -> str:
        name = f"model/layers.{layer}"
        attended = self._attention(self.rms_norm(x, f"{name}/input_layernorm"), f"{name}/self_attn", layer)
        x = self.node("Add", f"{name}/Add", [x, attended])
        inner = self.rms_norm(x, f"{name}/post_attention_layernorm")
        gate = self.project(inner, f"{name}/mlp/gate_proj", HIDDEN, INNER)
        gate = self.node("Mul", f"{name}/mlp/Mul", [gate, self.node("Sigmoid", f"{name}/mlp/Sigmoid", [gate])])
        up = self.project(inner, f"{name}/mlp/up_proj", HIDDEN, INNER)
        down = self.node("Mul", f"{name}/mlp/Mul_1", [gate, up])
        return self.node("Add", f"{name}/Add_1", [x, self.project(down, f"{name}/mlp/down_proj", INNER, HIDDEN)])

    def project(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """A linear layer without a bias."""
        weight = self.weight(f"{name}.weight", self.rng.standard_normal((inputs, outputs)) / np.sqrt(inputs))
        return self.node("MatMul", f"{name}/MatMul", [x, weight])

    def rms_norm(self, x: str, name: str) -> str:
        """x divided by the root of its mean square over the last axis, then scaled, from the parts."""
        squared = self.node("Pow", f"{name}/Pow", [x, self.constant(f"{name}/two", 2.0, np.float32)])
        mean = self.node("ReduceMean", f"{name}/ReduceMean", [squared], axes=[-1])
        raised = self.node("Add", f"{name}/Add", [mean, self.constant(f"{name}/epsilon", 1e-5, np.float32)])
        root = self.node("Sqrt", f"{name}/Sqrt", [raised])
        inverse = self.node("Div", f"{name}/Div", [self.constant(f"{name}/one", 1.0, np.float32), root])
        normed = self.node("Mul", f"{name}/Mul", [x, inverse])
        scale = self.weight(f"{name}.weight", self.rng.uniform(0.8, 1.2, HIDDEN))
        return self.node("Mul", f"{name}/Mul_1", [scale, normed])

    def _attention(self, x: str, name: str, layer: int) -> str:
        query = self._heads(x, f"{name}/q_proj", HEADS)
        key = self._heads(x, f"{name}/k_proj", KEY_HEADS)
        value = self._heads(x, f"{name}/v_proj", KEY_HEADS)
        query, key = self._rotate(query, f"{name}/q_rope"), self._rotate(key, f"{name}/k_rope")
        pasts = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        key = self.node("Concat", f"{name}/Concat", [pasts[0], key], f"present.{layer}.key", axis=-2)
        value = self.node("Concat", f"{name}/Concat_1", [pasts[1], value], f"present.{layer}.value", axis=-2)
        key, value = self._repeat(key, f"{name}/k_repeat"), self._repeat(value, f"{name}/v_repeat")
        key = self.node("Transpose", f"{name}/Transpose", [key], perm=[0, 1, 3, 2])
        scores = self.node("MatMul", f"{name}/MatMul", [query, key])
        scores = self.node("Mul", f"{name}/Mul", [scores, self.constant(f"{name}/scale", EACH**-0.5, np.float32)])
        scores = self.node("Add", f"{name}/Add", [scores, self.mask])
        shares = self.node("Softmax", f"{name}/Softmax", [scores], axis=-1)
        context = self.node("MatMul", f"{name}/MatMul_1", [shares, value])
        context = self.node("Transpose", f"{name}/Transpose_1", [context], perm=[0, 2, 1, 3])
        shape = self.sizes(f"{name}/shape", self.batch, self.sequence, HEADS * EACH)
        joined = self.node("Reshape", f"{name}/Reshape", [context, shape])
        return self.project(joined, f"{name}/o_proj", HEADS * EACH, HIDDEN)

    def _heads(self, x: str, name: str, heads: int) -> str:
        shape = self.sizes(f"{name}/shape", self.batch, self.sequence, heads, EACH)
        split = self.node("Reshape", f"{name}/Reshape", [self.project(x, name, HIDDEN, heads * EACH), shape])
        return self.node("Transpose", f"{name}/Transpose", [split], perm=[0, 2, 1, 3])

    def _rotate(self, x: str, name: str) -> str:
        """Turn each pair of features i and i + 16 by the angle of its position (Su et al., 2021, arXiv:2104.09864)."""
        half, end = self.constant(f"{name}/half", [EACH // 2]), self.constant(f"{name}/end", [np.iinfo(np.int64).max])
        axis, zero = self.constant(f"{name}/axis", [3]), self.constant(f"{name}/zero", [0])
        first = self.node("Slice", f"{name}/Slice", [x, zero, half, axis])
        second = self.node("Slice", f"{name}/Slice_1", [x, half, end, axis])
        turned = self.node("Concat", f"{name}/Concat", [self.node("Neg", f"{name}/Neg", [second]), first], axis=-1)
        kept = self.node("Mul", f"{name}/Mul", [x, self.cosine])
        moved = self.node("Mul", f"{name}/Mul_1", [turned, self.sine])
        return self.node("Add", f"{name}/Add", [kept, moved])

    def _repeat(self, x: str, name: str) -> str:
        """Keys or values once for each query head of their group: [batch, 2, total, 32] to [batch, 6, total, 32]."""
        total = self.size(x, name, 2)
        groups = HEADS // KEY_HEADS
        wide = self.node("Unsqueeze", f"{name}/Unsqueeze", [x, self.constant(f"{name}/axes", [2])])
        shape = self.sizes(f"{name}/shape", self.batch, KEY_HEADS, groups, total, EACH)
        wide = self.node("Expand", f"{name}/Expand", [wide, shape])
        shape = self.sizes(f"{name}/shape_1", self.batch, HEADS, total, EACH)
        return self.node("Reshape", f"{name}/Reshape", [wide, shape])
