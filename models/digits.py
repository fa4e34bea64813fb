"""A small convolutional network for scikit-learn's handwritten digits, trained here with numpy alone.

    python -m mcpc.models train digits      writes digits.onnx and digits_test.npz beside this file

The network reads ``image``, float32 [batch, 1, 8, 8], pixels in 0..1 (the data set's 0..16, divided by 16), and gives
``probabilities``, float32 [batch, 10]. digits_test.npz holds the quarter of the data that training never saw:
``images`` uint8 [450, 8, 8] in 0..16 and ``labels`` uint8 [450], so that the demo needs no scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]
Parameters = dict[str, Array]

FOLDER = Path(__file__).parent
MODEL = FOLDER / "digits.onnx"
TEST_SET = FOLDER / "digits_test.npz"

#: The data set's largest pixel.
WHITE = 16

CHANNELS = (16, 32)
EPOCHS = 40
BATCH = 32


def held_out() -> tuple[Array, Array]:
    """The held-out images, float32 [450, 1, 8, 8] as the network reads them, and their labels, uint8 [450]."""
    with np.load(TEST_SET) as data:
        return as_input(data["images"]), data["labels"]


def trained() -> Parameters:
    """The parameters of the model beside this file."""
    import onnx
    from onnx import numpy_helper

    # a copy, since onnx gives read-only views
    return {tensor.name: numpy_helper.to_array(tensor).copy() for tensor in onnx.load(MODEL).graph.initializer}


def as_input(images: Array) -> Array:
    """Images [n, 8, 8] in 0..16 as the network reads them."""
    return (images.astype(np.float32) / WHITE)[:, None]


def split() -> tuple[Array, Array, Array, Array]:
    """Training images and labels, test images and labels; needs scikit-learn."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)
    return train_x, train_y, test_x, test_y


def write() -> float:
    """Train, write both files, and return the accuracy on the test set."""
    import onnx

    train_x, train_y, test_x, test_y = split()
    parameters = train(as_input(train_x), train_y)
    onnx.save(build(parameters), MODEL)
    np.savez_compressed(TEST_SET, images=test_x, labels=test_y)
    logits = forward(parameters, as_input(test_x))[-1]
    return float((logits.argmax(1) == test_y).mean())


# ---- the network in ONNX


def build_trained(batch: int | str = 1) -> onnx.ModelProto:
    """The model beside this file, with ``batch`` images at once."""
    return build(trained(), batch)


def build(parameters: Parameters, batch: int | str = 1) -> onnx.ModelProto:
    """The trained network as a model whose batch size is ``batch``, a number or a symbol's name."""
    from onnx import TensorProto, checker, helper, numpy_helper

    pad: dict[str, Any] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], name="conv1", **pad),
        helper.make_node("Relu", ["conv1"], ["relu1"], "relu1"),
        helper.make_node("Conv", ["relu1", "conv2.weight", "conv2.bias"], ["conv2"], name="conv2", **pad),
        helper.make_node("Relu", ["conv2"], ["relu2"], "relu2"),
        helper.make_node("MaxPool", ["relu2"], ["pool"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["features"], "flatten", axis=1),
        helper.make_node("Gemm", ["features", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [batch, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(array, name) for name, array in parameters.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="mcpc.models"
    )
    checker.check_model(model, full_check=True)
    return model


# ---- training


def train(images: Array, labels: Array, epochs: int = EPOCHS, seed: int = 0) -> Parameters:
    """Parameters after ``epochs`` of Adam on ``images`` [n, 1, 8, 8], each moved by up to one pixel every time."""
    rng = np.random.default_rng(seed)
    parameters = initial_parameters(rng)
    first = {name: np.zeros_like(array) for name, array in parameters.items()}
    second = {name: np.zeros_like(array) for name, array in parameters.items()}
    steps = epochs * -(-len(images) // BATCH)
    for step, (x, y) in enumerate(_batches(images, labels, epochs, rng), start=1):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
        for name, gradient in gradients(parameters, x, y).items():
            first[name] += 0.1 * (gradient - first[name])
            second[name] += 0.001 * (gradient**2 - second[name])
            update = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8)
            parameters[name] -= (rate * (update + 1e-2 * parameters[name])).astype(np.float32)
    return parameters


def _batches(images: Array, labels: Array, epochs: int, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for _ in range(epochs):
        order = rng.permutation(len(images))
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            dy, dx = rng.integers(0, 3, 2)
            yield padded[rows, :, dy : dy + 8, dx : dx + 8], labels[rows]


def initial_parameters(rng: np.random.Generator) -> Parameters:
    """He-initialised weights (ONNX layouts: OIHW for Conv, [out, in] for Gemm with transB) and zero biases."""
    shapes = {
        "conv1": (CHANNELS[0], 1, 3, 3),
        "conv2": (CHANNELS[1], CHANNELS[0], 3, 3),
        "fc": (10, CHANNELS[1] * 4 * 4),
    }
    parameters: Parameters = {}
    for name, shape in shapes.items():
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        parameters[f"{name}.weight"] = (rng.standard_normal(shape, np.float32) * deviation).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return parameters


def forward(parameters: Parameters, images: Array) -> tuple[Array, ...]:
    """What :func:`gradients` needs: both convolutions' outputs after Relu, the pooled features, the logits."""
    relu1 = np.maximum(_conv(images, parameters["conv1.weight"], parameters["conv1.bias"]), 0)
    relu2 = np.maximum(_conv(relu1, parameters["conv2.weight"], parameters["conv2.bias"]), 0)
    pooled = _windows(relu2).max(-1)
    features = pooled.reshape(len(images), -1)
    return relu1, relu2, features, features @ parameters["fc.weight"].T + parameters["fc.bias"]


def gradients(parameters: Parameters, images: Array, labels: Array) -> Parameters:
    """Of the mean cross-entropy by each parameter."""
    relu1, relu2, features, logits = forward(parameters, images)
    error = np.exp(logits - logits.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    result = {"fc.weight": error.T @ features, "fc.bias": error.sum(0)}

    pooled = features.reshape(len(images), CHANNELS[1], 4, 4)
    error = (error @ parameters["fc.weight"]).reshape(pooled.shape)
    # Of equal maxima in a window (mostly zeros) each gets the gradient; Relu's mask then drops the zeros.
    error = (error.repeat(2, 2).repeat(2, 3)) * (relu2 == pooled.repeat(2, 2).repeat(2, 3)) * (relu2 > 0)
    result["conv2.weight"], result["conv2.bias"] = _conv_gradients(relu1, error)

    flipped = parameters["conv2.weight"].transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    error = _conv(error, flipped, np.zeros(CHANNELS[0], np.float32)) * (relu1 > 0)
    result["conv1.weight"], result["conv1.bias"] = _conv_gradients(images, error)
    return result


def _patches(x: Array) -> Array:
    """3x3 neighbourhoods with zero padding: [n, c, h, w] -> [n, h, w, c * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(x.shape[0], x.shape[2], x.shape[3], -1)


def _conv(x: Array, weight: Array, bias: Array) -> Array:
    result: Array = (_patches(x) @ weight.reshape(len(weight), -1).T + bias).transpose(0, 3, 1, 2)
    return result


def _conv_gradients(x: Array, error: Array) -> tuple[Array, Array]:
    patches = _patches(x)
    rows = error.transpose(0, 2, 3, 1).reshape(-1, error.shape[1])
    weight = rows.T @ patches.reshape(len(rows), -1)
    return weight.reshape(error.shape[1], x.shape[1], 3, 3), rows.sum(0)


def _windows(x: Array) -> Array:
    """Non-overlapping 2x2 windows: [n, c, h, w] -> [n, c, h/2, w/2, 4]."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
