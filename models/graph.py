"""What the builders of sample networks share: nodes and seeded weights, laid out as a PyTorch export has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

#: The pooling of most classifiers: operator and attributes.
GLOBAL_AVERAGE: tuple[str, dict[str, Any]] = ("GlobalAveragePool", {})

#: A size: a number, or the name of a symbolic one.
Size = int | str

Array = np.ndarray[Any, Any]


@dataclass
class GraphBuilder:
    """Collects nodes and weights, then makes the model. A value is known by its name.

    Attributes: rng, the source of all weights; nodes; weights, the initializers.
    """

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def weight(self, name: str, array: Any, dtype: Any = np.float32) -> str:
        """An initializer."""
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op: str, name: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node with one output, called ``output`` where that is given."""
        return self.several(op, name, inputs, [output or f"{name}_output_0"], **attributes)[0]

    def several(
        self, op: str, name: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> Sequence[str]:
        """A node with the ``outputs`` named, of which "" is one that nobody reads."""
        from onnx import helper

        self.nodes.append(helper.make_node(op, inputs, outputs, name, **attributes))
        return outputs

    def constant(self, name: str, value: Any, dtype: Any = np.int64) -> str:
        """A Constant node, which is how exporters write numbers that stand in the network's code."""
        from onnx import numpy_helper

        return self.node("Constant", name, [], value=numpy_helper.from_array(np.asarray(value, dtype)))

    def size(self, x: str, name: str, axis: int) -> str:
        """The size of ``x`` along ``axis`` at run time, int64 of rank 0."""
        shape = self.node("Shape", f"{name}/Shape", [x])
        return self.node("Gather", f"{name}/Gather", [shape, self.constant(f"{name}/Constant", axis)], axis=0)

    def sizes(self, name: str, *sizes: int | str) -> str:
        """A shape, int64 of rank 1: a Constant node, or a Concat where a size is the name of a value of rank 0."""
        if all(isinstance(size, int) for size in sizes):
            return self.constant(f"{name}/Constant", sizes)
        parts = []
        for index, size in enumerate(sizes):
            if isinstance(size, int):
                parts.append(self.constant(f"{name}/Constant_{index}", [size]))
            else:
                axes = self.constant(f"{name}/axes_{index}", [0])
                parts.append(self.node("Unsqueeze", f"{name}/Unsqueeze_{index}", [size, axes]))
        return self.node("Concat", f"{name}/Concat", parts, axis=0)

    def dense(self, x: str, name: str, inputs: int, outputs: int, scale: float = 1.0) -> str:
        """``x @ weight + bias`` over the last axis: MatMul, then Add with the bias first, as torch.nn.Linear exports.

        Weights are Xavier's times ``scale``: inputs of variance 1 give outputs of about ``scale`` squared.
        """
        weight = self.rng.standard_normal((inputs, outputs)) * (scale / math.sqrt(inputs))
        product = self.node("MatMul", f"{name}/MatMul", [x, self.weight(f"{name}.weight", weight)])
        bias = self.weight(f"{name}.bias", self.rng.normal(0, 0.1, outputs))
        return self.node("Add", f"{name}/Add", [bias, product])

    def gelu(self, x: str, name: str) -> str:
        """x / 2 · (1 + erf(x / √2)), from its parts."""
        scaled = self.node("Div", f"{name}/Div", [x, self.constant(f"{name}/root", math.sqrt(2), np.float32)])
        erf = self.node("Erf", f"{name}/Erf", [scaled])
        shifted = self.node("Add", f"{name}/Add", [erf, self.constant(f"{name}/one", 1.0, np.float32)])
        product = self.node("Mul", f"{name}/Mul", [x, shifted])
        return self.node("Mul", f"{name}/Mul_1", [product, self.constant(f"{name}/half", 0.5, np.float32)])

    def layer_norm_weights(self, name: str, width: int) -> tuple[str, str]:
        """Scale and shift of a layer normalisation over ``width`` features."""
        scale, shift = self.rng.uniform(0.8, 1.2, width), self.rng.normal(0, 0.1, width)
        return self.weight(f"{name}.weight", scale), self.weight(f"{name}.bias", shift)

    def model(
        self,
        name: str,
        inputs: dict[str, Sequence[Size]],
        outputs: dict[str, Sequence[Size]],
        opset: int = 17,
        input_types: Mapping[str, int] | None = None,
    ) -> onnx.ModelProto:
        """The checked model. Inputs and outputs by name with their shapes, float32 unless ``input_types`` says."""
        from onnx import TensorProto, checker, helper

        graph = helper.make_graph(
            self.nodes,
            name,
            [
                helper.make_tensor_value_info(n, (input_types or {}).get(n, TensorProto.FLOAT), shape)
                for n, shape in inputs.items()
            ],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in outputs.items()],
            self.weights,
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="mcpc.models"
        )
        checker.check_model(model, full_check=True)
        return model


@dataclass(frozen=True)
class Tensor:
    """A feature map [batch, channels, ...] with the mean and variance that each channel has in expectation."""

    name: str
    mean: Array
    variance: Array

    @staticmethod
    def normal(name: str, channels: int, mean: float = 0.0, variance: float = 1.0) -> Tensor:
        """All channels alike."""
        return Tensor(name, np.full(channels, mean), np.full(channels, variance))

    @property
    def channels(self) -> int:
        return len(self.mean)


@dataclass
class ConvBuilder(GraphBuilder):
    """Convolutions whose BatchNormalization statistics are those that random weights give in expectation, so that
    activations stay of the order of 1 however deep the network is.

    Weights are independent of each other, so that neighbouring pixels may be as alike as they please: the expected
    variance of a sum is that of independent terms. Only the means of the channels have to be followed exactly.

    Attributes: fold, whether the normalisation is folded into the convolution, as exporters do for inference.
    """

    fold: bool = False

    def conv(
        self,
        x: Tensor,
        name: str,
        channels: int,
        kernel: int | tuple[int, int] = 1,
        stride: int = 1,
        groups: int = 1,
        activation: str = "",
        gain: float = 1.0,
        padded: bool = True,
    ) -> Tensor:
        """Conv and BatchNormalization, then ``activation``: "", "relu", "relu6" or "silu".

        ``gain`` scales what the normalisation gives; ``padded`` keeps the size where the stride is 1.
        """
        gamma, beta = self.rng.uniform(0.8, 1.2, channels) * gain, self.rng.normal(0, 0.1, channels) * gain
        weight = self._kernel(x, channels, kernel, groups)
        mean, variance = _moments_of_sum(x, weight, groups)
        attributes = _conv_attributes(weight, stride, groups, padded)
        if self.fold:
            scale = gamma / np.sqrt(variance + 1e-5)
            result = self._conv_node(x, name, weight * scale[:, None, None, None], beta - mean * scale, attributes)
        else:
            convolved = self._conv_node(x, f"{name}/conv", weight, None, attributes)
            statistics = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": variance}
            names = [self.weight(f"{name}/bn.{key}", value) for key, value in statistics.items()]
            result = self.node("BatchNormalization", f"{name}/bn", [convolved, *names], epsilon=1e-5, momentum=0.9)
        return self.activate(Tensor(result, beta, gamma**2), name, activation)

    def biased_conv(
        self, x: Tensor, name: str, channels: int, mean: float = 0.0, activation: str = "", gain: float = 1.0
    ) -> Tensor:
        """A 1x1 Conv with a bias and no normalisation, whose outputs vary by ``gain`` or so around ``mean``."""
        weight = self._kernel(x, channels, 1, 1)
        weight *= gain / np.sqrt((weight**2).mean() * (x.mean**2 + x.variance).sum())
        shift, variance = _moments_of_sum(x, weight, 1)
        bias = mean - shift + self.rng.normal(0, 0.5, channels)
        result = self._conv_node(x, name, weight, bias, _conv_attributes(weight, 1, 1, True))
        return self.activate(Tensor(result, shift + bias, variance), name, activation)

    def fixed_conv(self, x: str, name: str, weight: Array) -> str:
        """A Conv without a bias whose weights are given."""
        channels = Tensor.normal(x, weight.shape[1])
        return self._conv_node(channels, name, weight, None, _conv_attributes(weight, 1, 1, True))

    def activate(self, x: Tensor, name: str, activation: str) -> Tensor:
        """``x`` after an activation. Clip's bounds are weights that the network has made: relu6.min and relu6.max."""
        if activation == "":
            return x
        if activation == "relu":
            result = self.node("Relu", f"{name}/relu", [x.name])
        elif activation == "relu6":
            result = self.node("Clip", f"{name}/relu6", [x.name, "relu6.min", "relu6.max"])
        else:
            gate = self.node("Sigmoid", f"{name}/act/Sigmoid", [x.name])
            result = self.node("Mul", f"{name}/act/Mul", [x.name, gate])
        return Tensor(result, *_moments_of_activation(x, activation))

    def max_pool(self, x: Tensor, name: str, kernel: int, stride: int) -> Tensor:
        pooled = self.node(
            "MaxPool",
            name,
            [x.name],
            ceil_mode=0,
            dilations=[1, 1],
            kernel_shape=[kernel, kernel],
            pads=[kernel // 2] * 4,
            strides=[stride, stride],
        )
        # the largest of 9 to 25 values lies about two deviations above the mean, and varies half as much
        return Tensor(pooled, x.mean + 2 * np.sqrt(x.variance), x.variance / 4)

    def add(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        return Tensor(self.node("Add", name, [x.name, y.name]), x.mean + y.mean, x.variance + y.variance)

    def concat(self, name: str, *maps: Tensor) -> Tensor:
        """Maps one after the other along the channels."""
        joined = self.node("Concat", name, [x.name for x in maps], axis=1)
        return Tensor(joined, np.concatenate([x.mean for x in maps]), np.concatenate([x.variance for x in maps]))

    def classify(self, x: Tensor, name: str, classes: int, output: str, pool: tuple[str, dict[str, Any]]) -> None:
        """Global pooling (operator and attributes), Flatten and Gemm: logits of the order of 1, called ``output``."""
        pooled = self.node(pool[0], f"{name}/pool", [x.name], **pool[1])
        flat = self.node("Flatten", f"{name}/flatten", [pooled], axis=1)
        # the mean of some fifty pixels varies little; what all channels have in common cancels out
        scale = math.sqrt(((x.mean - x.mean.mean()) ** 2 + 0.02 * x.variance).sum())
        rows = self.rng.standard_normal((classes, x.channels)) / scale
        weight = self.weight(f"{name}.weight", rows - rows.mean(1, keepdims=True))
        bias = self.weight(f"{name}.bias", self.rng.normal(0, 0.1, classes))
        self.node("Gemm", name, [flat, weight, bias], output, transB=1)

    def _kernel(self, x: Tensor, channels: int, kernel: int | tuple[int, int], groups: int) -> Array:
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        shape = (channels, x.channels // groups, height, width)
        weight = self.rng.standard_normal(shape) * math.sqrt(2 / math.prod(shape[1:]))
        if shape[1] > 1:  # what all inputs have in common cancels out, so that an error in the means does not add up
            weight -= weight.mean((1, 2, 3), keepdims=True)
        return weight

    def _conv_node(self, x: Tensor, name: str, weight: Array, bias: Array | None, attributes: dict[str, Any]) -> str:
        inputs = [x.name, self.weight(f"{name}.weight", weight)]
        if bias is not None:
            inputs.append(self.weight(f"{name}.bias", bias))
        return self.node("Conv", name, inputs, **attributes)


def _conv_attributes(weight: Array, stride: int, groups: int, padded: bool) -> dict[str, Any]:
    height, width = weight.shape[2:]
    return {
        "kernel_shape": [height, width],
        "strides": [stride, stride],
        "pads": [height // 2, width // 2] * 2 if padded else [0] * 4,
        "dilations": [1, 1],
        "group": groups,
    }


def _moments_of_sum(x: Tensor, weight: Array, groups: int) -> tuple[Array, Array]:
    """Mean and variance of each channel after a convolution of ``x`` with ``weight`` [out, in / groups, h, w]."""
    taps = weight.sum((2, 3)).reshape(groups, -1, weight.shape[1])
    squares = (weight**2).sum((2, 3)).reshape(taps.shape)
    mean = (taps @ x.mean.reshape(groups, -1, 1)).reshape(-1)
    return mean, (squares @ x.variance.reshape(groups, -1, 1)).reshape(-1)


#: Where the activations' moments are sampled, in deviations from the mean, and the normal distribution's weights.
_SAMPLES = np.arange(-96, 97) / 16
_DENSITY = np.exp(-(_SAMPLES**2) / 2) / np.exp(-(_SAMPLES**2) / 2).sum()


def _moments_of_activation(x: Tensor, activation: str) -> tuple[Array, Array]:
    """Mean and variance of each channel after an activation, where ``x`` is distributed normally.

    Rounded, so that another processor's exponential function gives the same weights.
    """
    values = x.mean[:, None] + np.sqrt(x.variance)[:, None] * _SAMPLES
    if activation == "silu":
        values = values / (1 + np.exp(-values))
    else:
        values = np.clip(values, 0, 6 if activation == "relu6" else np.inf)
    mean = values @ _DENSITY
    return np.round(mean, 6), np.round((values**2) @ _DENSITY - mean**2, 6)
