"""MobileNetV2 1.0 (Sandler et al., 2018, arXiv:1801.04381, table 2) as torchvision exports it, with seeded weights.

Real shapes and operators without a download: Conv, BatchNormalization and Clip blocks. The BatchNormalization
statistics are those that He-initialised weights give in expectation, so every activation stays of the order of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

#: Expansion, output channels, repeats, first stride: the paper's table 2.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

#: Mean and variance of min(max(x, 0), 6) for x of the standard normal distribution.
RELU6_MEAN, RELU6_VARIANCE = 0.399, 0.341


@dataclass(frozen=True)
class Tensor:
    """A tensor in the graph with the mean and variance that its elements have in expectation."""

    name: str
    channels: int
    mean: float
    variance: float


@dataclass
class Builder:
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, name: str, array: Any) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(self, op: str, name: str, inputs: Sequence[str], **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, [f"{name}_output_0"], name, **attributes))
        return f"{name}_output_0"

    def conv(
        self, x: Tensor, name: str, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1, relu6: bool = True
    ) -> Tensor:
        """Conv and BatchNormalization, then Clip to 0..6 unless ``relu6`` is false."""
        fan_in = x.channels // groups * kernel * kernel
        weight = self.rng.standard_normal((channels, x.channels // groups, kernel, kernel)) * np.sqrt(2 / fan_in)
        rows = weight.reshape(channels, -1)
        gamma, beta = self.rng.uniform(0.8, 1.2, channels), self.rng.normal(0, 0.1, channels)
        pad = kernel // 2
        convolved = self.node(
            "Conv",
            f"{name}/conv",
            [x.name, self.constant(f"{name}.conv.weight", weight)],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            dilations=[1, 1],
            group=groups,
        )
        statistics = {
            "weight": gamma,
            "bias": beta,
            "running_mean": rows.sum(1) * x.mean,
            "running_var": (rows**2).sum(1) * x.variance,
        }
        names = [self.constant(f"{name}.bn.{key}", value) for key, value in statistics.items()]
        result = self.node("BatchNormalization", f"{name}/bn", [convolved, *names], epsilon=1e-5, momentum=0.9)
        if not relu6:
            return Tensor(result, channels, 0.0, 1.0)
        clipped = self.node("Clip", f"{name}/relu6", [result, "relu6.min", "relu6.max"])
        return Tensor(clipped, channels, RELU6_MEAN, RELU6_VARIANCE)

    def block(self, x: Tensor, name: str, expansion: int, channels: int, stride: int) -> Tensor:
        """An inverted residual: expand, depthwise, project, and add where the shape stays."""
        hidden = x.channels * expansion
        y = x if expansion == 1 else self.conv(x, f"{name}/expand", hidden)
        y = self.conv(y, f"{name}/depthwise", hidden, 3, stride, hidden)
        y = self.conv(y, f"{name}/project", channels, relu6=False)
        if stride != 1 or channels != x.channels:
            return y
        added = self.node("Add", f"{name}/add", [x.name, y.name])
        return Tensor(added, channels, 0.0, x.variance + y.variance)


def build(seed: int = 0, batch: int | str = 1, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """The network: ``input`` float32 [batch, 3, size, size] (normalised pixels), ``output`` float32 [batch, classes].

    ``batch`` is a number or a symbol's name. 3.5 million parameters, 0.6 GFLOP an image at 224 pixels.
    """
    from onnx import TensorProto, checker, helper

    b = Builder(np.random.default_rng(seed))
    b.constant("relu6.min", 0.0)
    b.constant("relu6.max", 6.0)
    x = b.conv(Tensor("input", 3, 0.0, 1.0), "features.0", 32, 3, 2)
    count = 1
    for expansion, channels, repeats, stride in BLOCKS:
        for repeat in range(repeats):
            x = b.block(x, f"features.{count}", expansion, channels, stride if repeat == 0 else 1)
            count += 1
    x = b.conv(x, f"features.{count}", 1280)
    pooled = b.node("GlobalAveragePool", "pool", [x.name])
    flat = b.node("Flatten", "flatten", [pooled], axis=1)
    weight = b.constant("classifier.weight", b.rng.standard_normal((classes, 1280)) / np.sqrt(1280 * x.mean**2))
    bias = b.constant("classifier.bias", b.rng.normal(0, 0.1, classes))
    b.nodes.append(helper.make_node("Gemm", [flat, weight, bias], ["output"], "classifier", transB=1))

    graph = helper.make_graph(
        b.nodes,
        "mobilenetv2",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, size, size])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, classes])],
        b.weights,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="mcpc.models"
    )
    checker.check_model(model, full_check=True)
    return model
