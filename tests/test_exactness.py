"""Quantised networks compute, layer by layer, what float64 makes of the same bytes (bench/exactness.py)."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from exactness import Feeds, layers, quantized, samples

from mcpc.errors import McpcError
from mcpc.models.samples import feeds


def check(model: onnx.ModelProto, given: Feeds, folder: Path) -> None:
    found = layers(model, given, "host", folder)
    assert found
    for layer in found:
        assert layer.most <= 2, layer
        assert layer.far <= 1e-4 * layer.elements, layer
    total = sum(layer.elements for layer in found)
    assert sum(layer.off for layer in found) <= max(2, 1e-5 * total), found  # only what lies between two steps


def test_layers_of_smart_turn_are_exact(tmp_path: Path) -> None:
    """Its layer norms, softmax, GELU and attention too."""
    try:
        model = onnx.load(quantized("smart-turn", tmp_path))
    except McpcError as error:
        if "cannot download" not in error.message:
            raise
        pytest.skip(f"the model cannot be fetched: {error.message}")
    check(model, samples("smart-turn", 4)[3], tmp_path)


def test_layers_of_mobilenetv2_are_exact(tmp_path: Path) -> None:
    model = onnx.load(quantized("mobilenetv2", tmp_path, size=64))
    check(model, feeds("mobilenetv2", (64, 64)), tmp_path)
