"""Which nodes always give the same outputs for the same inputs."""

from __future__ import annotations

from mcpc.ir import Node
from mcpc.ops.random import RANDOM


def is_pure(node: Node) -> bool:
    """Whether ``node`` is free of chance."""
    return not node.is_op(*RANDOM)
