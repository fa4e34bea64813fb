"""DeiT-tiny (Touvron et al., 2021, arXiv:2012.12877: 12 layers, width 192, 3 heads) as a timm model exports, seeded.

Queries, keys and values come out of one projection, taken apart by Reshape, Transpose and Gather. Opset 17 has the
LayerNormalization operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GraphBuilder, Size

if TYPE_CHECKING:
    import onnx

LAYERS, WIDTH, HEADS, PATCH = 12, 192, 3, 16


def build(seed: int = 0, batch: Size = 1, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """The network: ``input`` float32 [batch, 3, size, size] (normalised pixels), ``output`` float32 [batch, classes].

    ``batch`` is a number or a symbol's name, ``size`` a multiple of 16. 5.7 million parameters,
    2.5 GFLOP an image at 224 pixels.
    """
    b = _Builder(np.random.default_rng(seed))
    tokens = (size // PATCH) ** 2 + 1
    # what a trace with a fixed batch has as a constant, one with a symbolic batch reads from a shape
    count: int | str = batch if isinstance(batch, int) else b.size("input", "batch", 0)
    x = b.embed(count, tokens)
    for layer in range(LAYERS):
        x = b.block(x, f"blocks.{layer}", count, tokens)
    x = b.layer_norm(x, "norm")
    first = b.node("Gather", "Gather", [x, b.constant("Constant", 0)], axis=1)
    weight = b.weight("head.weight", b.rng.standard_normal((classes, WIDTH)) / np.sqrt(WIDTH))
    bias = b.weight("head.bias", b.rng.normal(0, 0.1, classes))
    b.node("Gemm", "head/Gemm", [first, weight, bias], "output", alpha=1.0, beta=1.0, transB=1)
    return b.model("deit_tiny", {"input": [batch, 3, size, size]}, {"output": [batch, classes]})


@dataclass
class _Builder(GraphBuilder):
    def embed(self, batch: int | str, tokens: int) -> str:
        """Patches of 16 x 16 pixels as tokens, after a token for the class, with a learned position each."""
        weight = self.rng.standard_normal((WIDTH, 3, PATCH, PATCH)) / np.sqrt(3 * PATCH * PATCH)
        inputs = [
            "input",
            self.weight("patch_embed.proj.weight", weight),
            self.weight("patch_embed.proj.bias", self.rng.normal(0, 0.1, WIDTH)),
        ]
        square = [PATCH, PATCH]
        patches = self.node(
            "Conv",
            "patch_embed/proj/Conv",
            inputs,
            dilations=[1, 1],
            group=1,
            kernel_shape=square,
            pads=[0, 0, 0, 0],
            strides=square,
        )
        shape = self.sizes("patch_embed/shape", batch, WIDTH, tokens - 1)
        flat = self.node("Reshape", "patch_embed/Reshape", [patches, shape], allowzero=0)
        flat = self.node("Transpose", "patch_embed/Transpose", [flat], perm=[0, 2, 1])
        token = self.weight("cls_token", self.rng.standard_normal((1, 1, WIDTH)))
        first = self.node("Expand", "Expand", [token, self.sizes("Expand/shape", batch, 1, WIDTH)])
        joined = self.node("Concat", "Concat", [first, flat], axis=1)
        return self.node("Add", "Add", [joined, self.weight("pos_embed", self.rng.normal(0, 0.5, (1, tokens, WIDTH)))])

    def block(self, x: str, name: str, batch: int | str, tokens: int) -> str:
        attended = self._attention(self.layer_norm(x, f"{name}/norm1"), f"{name}/attn", batch, tokens)
        x = self.node("Add", f"{name}/Add", [x, attended])
        inner = self.dense(self.layer_norm(x, f"{name}/norm2"), f"{name}/mlp/fc1", WIDTH, 4 * WIDTH)
        inner = self.gelu(inner, f"{name}/mlp/act")
        return self.node("Add", f"{name}/Add_1", [x, self.dense(inner, f"{name}/mlp/fc2", 4 * WIDTH, WIDTH)])

    def _attention(self, x: str, name: str, batch: int | str, tokens: int) -> str:
        each = WIDTH // HEADS
        packed = self.dense(x, f"{name}/qkv", WIDTH, 3 * WIDTH)
        shape = self.sizes(f"{name}/shape", batch, tokens, 3, HEADS, each)
        packed = self.node("Reshape", f"{name}/Reshape", [packed, shape], allowzero=0)
        packed = self.node("Transpose", f"{name}/Transpose", [packed], perm=[2, 0, 3, 1, 4])
        indices = [self.constant(f"{name}/index_{index}", index) for index in range(3)]
        query, key, value = (
            self.node("Gather", f"{name}/Gather_{part}", [packed, index], axis=0) for part, index in enumerate(indices)
        )
        query = self.node("Mul", f"{name}/Mul", [query, self.constant(f"{name}/scale", each**-0.5, np.float32)])
        key = self.node("Transpose", f"{name}/Transpose_1", [key], perm=[0, 1, 3, 2])
        scores = self.node("MatMul", f"{name}/MatMul", [query, key])
        shares = self.node("Softmax", f"{name}/Softmax", [scores], axis=-1)
        context = self.node("MatMul", f"{name}/MatMul_1", [shares, value])
        context = self.node("Transpose", f"{name}/Transpose_2", [context], perm=[0, 2, 1, 3])
        shape = self.sizes(f"{name}/shape_1", batch, tokens, WIDTH)
        joined = self.node("Reshape", f"{name}/Reshape_1", [context, shape], allowzero=0)
        return self.dense(joined, f"{name}/proj", WIDTH, WIDTH)

    def layer_norm(self, x: str, name: str) -> str:
        weights = self.layer_norm_weights(name, WIDTH)
        return self.node("LayerNormalization", f"{name}/LayerNormalization", [x, *weights], axis=-1, epsilon=1e-6)
