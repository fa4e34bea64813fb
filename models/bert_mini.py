"""BERT-mini (Turc et al., 2019, arXiv:1908.08962: 4 layers, hidden 256) as PyTorch exports it, with seeded weights.

As exporters at opset 14 write it: attention, LayerNorm and GELU from their parts, sizes by Shape and Gather, the mask
added to the scores as the lowest float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GraphBuilder, Size

if TYPE_CHECKING:
    import onnx

LAYERS, HIDDEN, HEADS, INNER = 4, 256, 4, 1024
VOCABULARY, POSITIONS = 30522, 512


def build(
    seed: int = 0, batch: Size = "batch", sequence: Size = "sequence", vocabulary: int = VOCABULARY
) -> onnx.ModelProto:
    """The network: ``input_ids``, ``attention_mask`` and ``token_type_ids``, int64 [batch, sequence], give
    ``last_hidden_state`` float32 [batch, sequence, 256] and ``pooler_output`` float32 [batch, 256].

    ``batch`` and ``sequence`` are numbers or symbols' names; a sequence has 512 tokens at most. 11.2 million
    parameters.
    """
    from onnx import TensorProto

    b = _Builder(np.random.default_rng(seed))
    embeddings = b.embeddings(vocabulary)
    mask = b.mask()
    x = embeddings
    for layer in range(LAYERS):
        x = b.layer(x, mask, f"encoder/layer.{layer}", last=layer == LAYERS - 1)
    first = b.node("Gather", "pooler/Gather", [x, b.constant("pooler/Constant", 0)], axis=1)
    weight = b.weight("pooler.dense.weight", b.rng.standard_normal((HIDDEN, HIDDEN)) / np.sqrt(HIDDEN))
    bias = b.weight("pooler.dense.bias", b.rng.normal(0, 0.1, HIDDEN))
    pooled = b.node("Gemm", "pooler/dense/Gemm", [first, weight, bias], alpha=1.0, beta=1.0, transB=1)
    b.node("Tanh", "pooler/activation/Tanh", [pooled], "pooler_output")
    shape = [batch, sequence]
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    return b.model(
        "bert_mini",
        dict.fromkeys(inputs, shape),
        {"last_hidden_state": [*shape, HIDDEN], "pooler_output": [batch, HIDDEN]},
        opset=14,
        input_types=dict.fromkeys(inputs, TensorProto.INT64),
    )


@dataclass
class _Builder(GraphBuilder):
    def embeddings(self, vocabulary: int) -> str:
        words = self._table("word_embeddings", vocabulary)
        positions = self._table("position_embeddings", POSITIONS)
        types = self._table("token_type_embeddings", 2)
        length = self.node(
            "Unsqueeze",
            "embeddings/Unsqueeze",
            [self.size("input_ids", "embeddings", 1), self.constant("embeddings/axes", [0])],
        )
        ids = self.weight("embeddings.position_ids", np.arange(POSITIONS)[None], np.int64)
        bounds = [self.constant("embeddings/start", [0]), length, self.constant("embeddings/axis", [1])]
        ids = self.node("Slice", "embeddings/Slice", [ids, *bounds, self.constant("embeddings/step", [1])])
        word = self.node("Gather", "embeddings/word_embeddings/Gather", [words, "input_ids"])
        kind = self.node("Gather", "embeddings/token_type_embeddings/Gather", [types, "token_type_ids"])
        position = self.node("Gather", "embeddings/position_embeddings/Gather", [positions, ids])
        total = self.node("Add", "embeddings/Add", [word, kind])
        total = self.node("Add", "embeddings/Add_1", [total, position])
        return self.layer_norm(total, "embeddings/LayerNorm")

    def _table(self, name: str, rows: int) -> str:
        return self.weight(f"embeddings.{name}.weight", self.rng.standard_normal((rows, HIDDEN)))

    def mask(self) -> str:
        """What the mask adds to scores: 0, or the lowest float where it is 0; [batch, 1, 1, sequence]."""
        axes = [self.constant("mask/axes", [1]), self.constant("mask/axes_1", [2])]
        wide = self.node("Unsqueeze", "mask/Unsqueeze", ["attention_mask", axes[0]])
        wide = self.node("Unsqueeze", "mask/Unsqueeze_1", [wide, axes[1]])
        wide = self.node("Cast", "mask/Cast", [wide], to=1)
        absent = self.node("Sub", "mask/Sub", [self.constant("mask/one", 1.0, np.float32), wide])
        lowest = self.constant("mask/lowest", np.finfo(np.float32).min, np.float32)
        return self.node("Mul", "mask/Mul", [absent, lowest])

    def layer(self, x: str, mask: str, name: str, last: bool) -> str:
        attended = self._attention(x, mask, f"{name}/attention/self")
        projected = self.dense(attended, f"{name}/attention/output/dense", HIDDEN, HIDDEN)
        total = self.node("Add", f"{name}/attention/output/Add", [projected, x])
        x = self.layer_norm(total, f"{name}/attention/output/LayerNorm")
        inner = self.dense(x, f"{name}/intermediate/dense", HIDDEN, INNER)
        inner = self.gelu(inner, f"{name}/intermediate/activation")
        projected = self.dense(inner, f"{name}/output/dense", INNER, HIDDEN)
        total = self.node("Add", f"{name}/output/Add", [projected, x])
        return self.layer_norm(total, f"{name}/output/LayerNorm", "last_hidden_state" if last else "")

    def _attention(self, x: str, mask: str, name: str) -> str:
        """Scaled dot products of [batch, sequence, hidden], split into heads and joined again."""
        query = self._heads(self.dense(x, f"{name}/query", HIDDEN, HIDDEN), f"{name}/query", [0, 2, 1, 3])
        key = self._heads(self.dense(x, f"{name}/key", HIDDEN, HIDDEN), f"{name}/key", [0, 2, 3, 1])
        value = self._heads(self.dense(x, f"{name}/value", HIDDEN, HIDDEN), f"{name}/value", [0, 2, 1, 3])
        scores = self.node("MatMul", f"{name}/MatMul", [query, key])
        root = self.constant(f"{name}/root", np.sqrt(HIDDEN // HEADS), np.float32)
        scores = self.node("Add", f"{name}/Add", [self.node("Div", f"{name}/Div", [scores, root]), mask])
        shares = self.node("Softmax", f"{name}/Softmax", [scores], axis=-1)
        context = self.node("MatMul", f"{name}/MatMul_1", [shares, value])
        context = self.node("Transpose", f"{name}/Transpose", [context], perm=[0, 2, 1, 3])
        sizes = [self.size(context, f"{name}/{axis}", index) for index, axis in enumerate(("batch", "sequence"))]
        return self.node("Reshape", f"{name}/Reshape", [context, self.sizes(f"{name}/shape", *sizes, HIDDEN)])

    def _heads(self, x: str, name: str, order: list[int]) -> str:
        sizes = [self.size(x, f"{name}/{axis}", index) for index, axis in enumerate(("batch", "sequence"))]
        split = self.node(
            "Reshape", f"{name}/Reshape", [x, self.sizes(f"{name}/shape", *sizes, HEADS, HIDDEN // HEADS)]
        )
        return self.node("Transpose", f"{name}/Transpose", [split], perm=order)

    def layer_norm(self, x: str, name: str, output: str = "") -> str:
        """(x - mean) / sqrt(variance + 1e-12) over the last axis, then scale and shift, from their parts."""
        scale, shift = self.layer_norm_weights(name, HIDDEN)
        mean = self.node("ReduceMean", f"{name}/ReduceMean", [x], axes=[-1])
        centred = self.node("Sub", f"{name}/Sub", [x, mean])
        squared = self.node("Pow", f"{name}/Pow", [centred, self.constant(f"{name}/two", 2.0, np.float32)])
        variance = self.node("ReduceMean", f"{name}/ReduceMean_1", [squared], axes=[-1])
        raised = self.node("Add", f"{name}/Add", [variance, self.constant(f"{name}/epsilon", 1e-12, np.float32)])
        deviation = self.node("Sqrt", f"{name}/Sqrt", [raised])
        normed = self.node("Div", f"{name}/Div", [centred, deviation])
        scaled = self.node("Mul", f"{name}/Mul", [normed, scale])
        return self.node("Add", f"{name}/Add_1", [scaled, shift], output)
