"""Every sample network by its name, whether it is built here or fetched."""

from __future__ import annotations

import onnx

from mcpc.models import builders, zoo

#: Names of all sample networks.
NAMES = tuple(dict.fromkeys((*builders.BUILDERS, *zoo.entries())))


def network(name: str) -> onnx.ModelProto:
    """The network called ``name``; UsageError E002 where there is none, or it cannot be fetched."""
    return builders.build(name) if name in builders.BUILDERS else onnx.load(zoo.fetch(name))
