"""Artifacts of sample networks for the shapes of their sample inputs."""

from __future__ import annotations

from pathlib import Path

from mcpc.compiler import compile as compile_model
from mcpc.models import samples
from mcpc.models.networks import network


def artifact(name: str, target: str, path: Path, passes: str | None = None) -> Path:
    """``path``, compiled where it is missing."""
    if not path.exists():
        shapes = {key: array.shape for key, array in samples.feeds(name).items()}
        model = network(name).SerializeToString()
        compile_model(model, target, path, input_shapes=shapes, golden=0, passes=passes)
    return path
