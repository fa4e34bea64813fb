"""Which nodes always give the same outputs for the same inputs."""

from __future__ import annotations

from mcpc.ir import Node
from mcpc.rewrite import constant_of

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def is_pure(node: Node) -> bool:
    """Whether ``node`` is free of chance. A Dropout draws where it trains, or might."""
    if node.is_op("Dropout"):
        training = constant_of(node.input(2))
        return node.input(2) is None or (training is not None and not training.any())
    return not node.is_op(*_RANDOM)
