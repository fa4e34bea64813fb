"""What an artifact says about itself, as plain data: ``mcpc inspect``, ``mcpc.inspect``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from mcpc import dtypes
from mcpc._schema import MetaT, TensorT
from mcpc.artifact import Artifact
from mcpc.container import Kind
from mcpc.layer_precision import precision_in

#: The parts of :func:`inspect`'s result that ``mcpc inspect --section`` shows, as its keys.
SECTIONS: dict[str, tuple[str, ...]] = {
    "summary": (
        *("model_name", "target", "format_version", "runtime_version", "abi_version", "signed"),
        *("file_bytes", "code_bytes", "weights_bytes", "arena_bytes", "live_set_bytes", "state_bytes", "scratch_bytes"),
        *("unbounded", "flops", "predicted_us", "golden_cases", "golden_bytes", "golden_tensors"),
        *("inputs", "outputs", "symbols", "code"),
    ),
    "steps": ("steps",),
    "fusion": ("decisions",),
    "precision": ("precision",),
    "memory": ("arena_bytes", "live_set_bytes", "state_bytes", "scratch_bytes", "unbounded", "buffers"),
    "shards": ("shards",),
    "provenance": ("provenance", "passes"),
}


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """All of an artifact's metadata and its file's structure: dicts, lists, texts and numbers, ready for JSON.

    Sizes are in bytes, times in microseconds; a symbolic dimension is a text. Errors as :meth:`Artifact.open`'s.
    """
    with Artifact.open(path) as artifact:
        meta, container = artifact.meta, artifact.container
        sizes = [section.size for section in container.sections]
        steps = [_step(index, step) for index, step in enumerate(meta.steps or [])]
        decisions = _decisions(meta)
        return {
            "model_name": meta.modelName,
            "target": meta.target,
            "format_version": _version(container.format_version),
            "runtime_version": _version(container.runtime_version),
            "abi_version": meta.abiVersion,
            "signed": bool(container.of_kind(Kind.SIGNATURE)),
            "file_bytes": container.file_size,
            "code_bytes": sum(sizes[code.section] for code in meta.code or []),
            "weights_bytes": sum(sizes[shard.section] for shard in meta.shards or []),
            "arena_bytes": meta.arenaBytes,
            "live_set_bytes": meta.liveSetBytes,
            "state_bytes": meta.stateBytes,
            "scratch_bytes": meta.scratchBytes,
            "unbounded": bool(meta.unbounded),
            "flops": sum(step["flops"] for step in steps),
            "predicted_us": sum(step["predicted_us"] for step in steps),
            "golden_cases": len(meta.golden or []),
            "golden_bytes": sizes[meta.goldenSection] if meta.golden else 0,
            "golden_tensors": _golden_tensors(meta),
            "inputs": [
                {**_tensor(tensor), "optional": index in {default.input for default in meta.defaults or []}}
                for index, tensor in enumerate(meta.inputs)
            ],
            "outputs": [_tensor(tensor) for tensor in meta.outputs],
            "symbols": [
                {"name": symbol.name, "min": symbol.min, "max": symbol.max if symbol.max >= 0 else None}
                for symbol in meta.symbols or []
            ],
            "code": [
                {"name": code.name, "isa": code.isa, "features": code.features or [], "bytes": sizes[code.section]}
                for code in meta.code or []
            ],
            "steps": steps,
            "decisions": decisions,
            "precision": precision_in(decisions),
            "passes": [
                {
                    "name": each.name,
                    "spec": each.spec or each.name,
                    "nodes_before": each.nodesBefore,
                    "nodes_after": each.nodesAfter,
                }
                for each in meta.passes or []
            ],
            "buffers": [
                {
                    "name": buffer.name,
                    "offset": buffer.offset,
                    "bytes": buffer.bytes,
                    "first_step": buffer.firstStep,
                    "last_step": buffer.lastStep,
                }
                for buffer in meta.buffers or []
            ],
            "shards": _shards(meta, sizes),
            "provenance": {entry.key: entry.value for entry in meta.provenance or []},
            "sections": [
                {"kind": _kind_name(section.kind), "offset": section.offset, "bytes": section.size}
                for section in container.sections
            ],
        }


def _version(numbers: Iterable[int]) -> str:
    return ".".join(map(str, numbers))


def _kind_name(kind: int) -> str:
    return Kind(kind).name if kind in Kind._value2member_map_ else str(kind)


def _tensor(tensor: TensorT) -> dict[str, Any]:
    texts = tensor.dimTexts or ["?"] * len(tensor.dims)
    known = dtypes.BY_CODE.get(tensor.dtype)
    return {
        "name": tensor.name,
        "dtype": known.name if known is not None else str(tensor.dtype),
        "shape": [
            dim.value if dim.symbol < 0 <= dim.value else text for dim, text in zip(tensor.dims, texts, strict=True)
        ],
        "max_bytes": tensor.maxBytes or None,
    }


def _golden_tensors(meta: MetaT) -> dict[str, int]:
    """How many tensors of the self-test are stored whole, drawn from a seed, sampled."""
    tensors = [tensor for case in meta.golden or [] for tensor in [*(case.inputs or []), *(case.outputs or [])]]
    drawn = sum(bool(tensor.drawn) for tensor in tensors)
    sampled = sum(tensor.block != 0 for tensor in tensors)
    return {"stored": len(tensors) - drawn - sampled, "drawn": drawn, "sampled": sampled}


def _step(index: int, step: Any) -> dict[str, Any]:
    return {
        "index": index,
        "name": step.name,
        "op": step.op,
        "kernel": step.kernel,
        "shape": step.shape or "",
        "flops": step.flops,
        "bytes": step.bytes,
        "predicted_us": step.predictedUs,
        "shards": step.shards or [],
    }


def _decisions(meta: MetaT) -> list[dict[str, Any]]:
    return [
        {
            "pass": decision.pass_,
            "subject": decision.subject,
            "action": decision.action,
            "reason": decision.reason or "",
            "numbers": {number.name: number.value for number in decision.numbers or []},
        }
        for decision in meta.decisions or []
    ]


def _shards(meta: MetaT, sizes: list[int]) -> list[dict[str, Any]]:
    readers: dict[int, list[int]] = {}
    for index, step in enumerate(meta.steps or []):
        for shard in step.shards or []:
            readers.setdefault(shard, []).append(index)
    return [
        {
            "index": index,
            "bytes": sizes[shard.section],
            "sha256": bytes(shard.sha256).hex(),
            "steps": readers.get(index, []),
        }
        for index, shard in enumerate(meta.shards or [])
    ]
