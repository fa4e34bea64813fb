"""Decoders of the Llama family (Touvron et al., 2023, arXiv:2302.13971) as they export for generation.

Grouped queries, rotary positions, RMS normalisation and SwiGLU, all from their parts. Keys and values of the tokens so
far go in as ``past_key_values`` and come out longer as ``present``: a prompt is one run with an empty past, then each
token is a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mcpc.models.graph import GraphBuilder, Size

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Config:
    """Sizes of a decoder: ``each`` is a head's width, ``theta`` the base of the rotary frequencies."""

    layers: int
    hidden: int
    inner: int
    heads: int
    key_heads: int
    each: int
    vocabulary: int
    theta: float


MINI = Config(layers=4, hidden=192, inner=512, heads=6, key_heads=2, each=32, vocabulary=2048, theta=10000.0)


def build(seed: int = 0, batch: Size = "batch_size") -> onnx.ModelProto:
    """A small network with seeded weights, see :func:`decoder`. 2.4 million parameters."""
    rng = np.random.default_rng(seed)

    def weights(name: str, shape: tuple[int, ...]) -> Array:
        if name.endswith("norm.weight"):
            return rng.uniform(0.8, 1.2, shape)
        # rows of the embedding have variance 1, as all that is added to them; logits spread more
        scale = {"model.embed_tokens.weight": 1.0, "lm_head.weight": 2 / np.sqrt(shape[0])}
        array: Array = rng.standard_normal(shape) * scale.get(name, 1 / np.sqrt(shape[0]))
        return array

    return decoder("llama_mini", MINI, weights, batch)


def decoder(
    name: str, config: Config, weights: Callable[[str, tuple[int, ...]], Array], batch: Size = "batch_size"
) -> onnx.ModelProto:
    """The network; sizes are symbolic: ``sequence_length`` new tokens after ``past_sequence_length`` ones.

    Inputs: ``input_ids`` and ``position_ids`` int64 [batch, sequence], ``attention_mask`` int64 [batch, past +
    sequence], and a layer ``past_key_values.N.key`` and ``.value`` float32 [batch, key_heads, past, each]. Outputs:
    ``logits`` float32 [batch, sequence, vocabulary], and a layer ``present.N.key`` and ``.value`` [batch, key_heads,
    past + sequence, each]. ``weights`` gives each weight by its name and shape: those of products as [inputs, outputs].
    """
    from onnx import TensorProto

    b = _Builder(np.random.default_rng(0), config=config, source=weights)
    b.prepare()
    x = b.node("Gather", "model/embed_tokens/Gather", [b.embedding, "input_ids"])
    for layer in range(config.layers):
        x = b.layer(x, layer)
    x = b.rms_norm(x, "model.norm")
    head = b.learned("lm_head.weight", (config.hidden, config.vocabulary))
    b.node("MatMul", "lm_head/MatMul", [x, head], "logits")

    sequence, past = "sequence_length", "past_sequence_length"
    total = f"{past} + {sequence}"
    integers = {"input_ids": [batch, sequence], "attention_mask": [batch, total], "position_ids": [batch, sequence]}
    caches = [f"{layer}.{kind}" for layer in range(config.layers) for kind in ("key", "value")]
    return b.model(
        name,
        {**integers, **{f"past_key_values.{each}": [batch, config.key_heads, past, config.each] for each in caches}},
        {
            "logits": [batch, sequence, config.vocabulary],
            **{f"present.{each}": [batch, config.key_heads, total, config.each] for each in caches},
        },
        input_types=dict.fromkeys(integers, TensorProto.INT64),
    )


@dataclass
class _Builder(GraphBuilder):
    config: Config = MINI
    source: Callable[[str, tuple[int, ...]], Array] = lambda name, shape: np.zeros(shape)
    embedding: str = ""
    batch: str = ""
    sequence: str = ""
    mask: str = ""
    cosine: str = ""
    sine: str = ""

    def learned(self, name: str, shape: tuple[int, ...]) -> str:
        return self.weight(name, self.source(name, shape))

    def prepare(self) -> None:
        """What all layers share: sizes, the mask to add to scores, and the angles of the positions."""
        self.embedding = self.learned("model.embed_tokens.weight", (self.config.vocabulary, self.config.hidden))
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
        """Cosine and sine of position times frequency, each frequency twice: [batch, 1, sequence, each]."""
        name = "model/rotary_emb"
        each = self.config.each
        frequencies = self.config.theta ** -(np.arange(0, each, 2) / each)
        inverse = self.weight(f"{name}.inv_freq", frequencies[None, :, None])
        shape = self.sizes(f"{name}/shape", self.batch, each // 2, 1)
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
        name, hidden, inner = f"model.layers.{layer}", self.config.hidden, self.config.inner
        attended = self._attention(self.rms_norm(x, f"{name}.input_layernorm"), f"{name}.self_attn", layer)
        x = self.node("Add", f"{name}/Add", [x, attended])
        normed = self.rms_norm(x, f"{name}.post_attention_layernorm")
        gate = self.project(normed, f"{name}.mlp.gate_proj", hidden, inner)
        gate = self.node("Mul", f"{name}.mlp/Mul", [gate, self.node("Sigmoid", f"{name}.mlp/Sigmoid", [gate])])
        up = self.project(normed, f"{name}.mlp.up_proj", hidden, inner)
        gated = self.node("Mul", f"{name}.mlp/Mul_1", [gate, up])
        return self.node("Add", f"{name}/Add_1", [x, self.project(gated, f"{name}.mlp.down_proj", inner, hidden)])

    def project(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """A linear layer without a bias."""
        return self.node("MatMul", f"{name}/MatMul", [x, self.learned(f"{name}.weight", (inputs, outputs))])

    def rms_norm(self, x: str, name: str) -> str:
        """x divided by the root of its mean square over the last axis, then scaled, from the parts."""
        squared = self.node("Pow", f"{name}/Pow", [x, self.constant(f"{name}/two", 2.0, np.float32)])
        mean = self.node("ReduceMean", f"{name}/ReduceMean", [squared], axes=[-1])
        raised = self.node("Add", f"{name}/Add", [mean, self.constant(f"{name}/epsilon", 1e-5, np.float32)])
        root = self.node("Sqrt", f"{name}/Sqrt", [raised])
        inverse = self.node("Div", f"{name}/Div", [self.constant(f"{name}/one", 1.0, np.float32), root])
        normed = self.node("Mul", f"{name}/Mul", [x, inverse])
        return self.node("Mul", f"{name}/Mul_1", [self.learned(f"{name}.weight", (self.config.hidden,)), normed])

    def _attention(self, x: str, name: str, layer: int) -> str:
        heads, key_heads, each = self.config.heads, self.config.key_heads, self.config.each
        query = self._heads(x, f"{name}.q_proj", heads)
        key = self._heads(x, f"{name}.k_proj", key_heads)
        value = self._heads(x, f"{name}.v_proj", key_heads)
        query, key = self._rotate(query, f"{name}/q_rope"), self._rotate(key, f"{name}/k_rope")
        pasts = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        key = self.node("Concat", f"{name}/Concat", [pasts[0], key], f"present.{layer}.key", axis=-2)
        value = self.node("Concat", f"{name}/Concat_1", [pasts[1], value], f"present.{layer}.value", axis=-2)
        key, value = self._repeat(key, f"{name}/k_repeat"), self._repeat(value, f"{name}/v_repeat")
        key = self.node("Transpose", f"{name}/Transpose", [key], perm=[0, 1, 3, 2])
        scores = self.node("MatMul", f"{name}/MatMul", [query, key])
        scores = self.node("Mul", f"{name}/Mul", [scores, self.constant(f"{name}/scale", each**-0.5, np.float32)])
        scores = self.node("Add", f"{name}/Add", [scores, self.mask])
        shares = self.node("Softmax", f"{name}/Softmax", [scores], axis=-1)
        context = self.node("MatMul", f"{name}/MatMul_1", [shares, value])
        context = self.node("Transpose", f"{name}/Transpose_1", [context], perm=[0, 2, 1, 3])
        shape = self.sizes(f"{name}/shape", self.batch, self.sequence, heads * each)
        joined = self.node("Reshape", f"{name}/Reshape", [context, shape])
        return self.project(joined, f"{name}.o_proj", heads * each, self.config.hidden)

    def _heads(self, x: str, name: str, heads: int) -> str:
        each = self.config.each
        shape = self.sizes(f"{name}/shape", self.batch, self.sequence, heads, each)
        projected = self.project(x, name, self.config.hidden, heads * each)
        split = self.node("Reshape", f"{name}/Reshape", [projected, shape])
        return self.node("Transpose", f"{name}/Transpose", [split], perm=[0, 2, 1, 3])

    def _rotate(self, x: str, name: str) -> str:
        """Turn each feature with the one half a head on by its position's angle (Su et al., 2021, arXiv:2104.09864)."""
        half = self.constant(f"{name}/half", [self.config.each // 2])
        zero, end = self.constant(f"{name}/zero", [0]), self.constant(f"{name}/end", [np.iinfo(np.int64).max])
        axis = self.constant(f"{name}/axis", [3])
        first = self.node("Slice", f"{name}/Slice", [x, zero, half, axis])
        second = self.node("Slice", f"{name}/Slice_1", [x, half, end, axis])
        turned = self.node("Concat", f"{name}/Concat", [self.node("Neg", f"{name}/Neg", [second]), first], axis=-1)
        kept = self.node("Mul", f"{name}/Mul", [x, self.cosine])
        moved = self.node("Mul", f"{name}/Mul_1", [turned, self.sine])
        return self.node("Add", f"{name}/Add", [kept, moved])

    def _repeat(self, x: str, name: str) -> str:
        """Keys or values once for each query head of their group: as many heads as queries have."""
        heads, key_heads, each = self.config.heads, self.config.key_heads, self.config.each
        total = self.size(x, name, 2)
        wide = self.node("Unsqueeze", f"{name}/Unsqueeze", [x, self.constant(f"{name}/axes", [2])])
        shape = self.sizes(f"{name}/shape", self.batch, key_heads, heads // key_heads, total, each)
        wide = self.node("Expand", f"{name}/Expand", [wide, shape])
        return self.node(
            "Reshape", f"{name}/Reshape", [wide, self.sizes(f"{name}/shape_1", self.batch, heads, total, each)]
        )
