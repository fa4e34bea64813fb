"""Builds a graph only to time it here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcpc.artifact import Contents, write_artifact
from mcpc.codegen import Family
from mcpc.ir import Graph
from mcpc.loader import Session, load
from mcpc.metadata import metadata
from mcpc.pipeline import PassContext
from mcpc.target import Target


@contextmanager
def trial(
    graph: Graph,
    target: Target,
    family: Family,
    options: Mapping[str, Any],
    jobs: int | None = None,
    threads: int = 1,
) -> Iterator[Session]:
    """A session of ``graph``, which is shaped for the family, built with ``options`` (:attr:`PassContext.options`)."""
    ctx = PassContext(target=target, options=dict(options))
    build = family.build(graph, target, ctx, jobs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trial.mcp26bin"
        write_artifact(path, Contents(metadata(graph, target, build, ctx), build.code, build.shards, []))
        with load(path, threads=threads) as session:
            yield session
