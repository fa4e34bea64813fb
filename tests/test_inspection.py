"""What ``mcpc.inspect`` tells about an artifact."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mcpc import _schema, inspection
from mcpc.artifact import Code, Contents, write_artifact
from mcpc.errors import FormatError
from mcpc.golden import Golden
from mcpc.inspection import SECTIONS, inspect


@pytest.fixture
def path(tmp_path: Path) -> Path:
    meta = _schema.MetaT(
        modelName="net",
        target="rock5b",
        abiVersion=1,
        inputs=[_schema.TensorT("x", 1, [_schema.DimRefT(-1, 0), _schema.DimRefT(3, -1)], ["N", "3"], 0)],
        outputs=[_schema.TensorT("y", 16, [_schema.DimRefT(-1, -1)], ["2*N + 1"], 64)],
        symbols=[_schema.SymbolT("N", 1, -1), _schema.SymbolT("M", 2, 8)],
        steps=[
            _schema.StepT("/a", "Conv+Relu", "conv", [1, 0], 100, 20, 1.5, "Nx3"),
            _schema.StepT("/b", "Softmax", "softmax", [1], 10, 8, 0.25, None),
        ],
        arenaBytes=4096,
        unbounded=True,
        liveSetBytes=4000,
        stateBytes=16,
        scratchBytes=128,
        buffers=[_schema.BufferT("t", 64, 256, 0, 1)],
        passes=[_schema.PassRecordT("fold", "fold{limit=4}", 12, 9), _schema.PassRecordT("cse", None, 9, 9)],
        decisions=[_schema.DecisionT("fuse", "/a", "fuse", "saves a trip", [_schema.NumberT("saved_us", 3.0)])],
        provenance=[_schema.KeyValueT("mcpc", "0.1.0"), _schema.KeyValueT("source_sha256", "ab")],
    )
    contents = Contents(
        meta,
        code=[Code("dotprod", "aarch64", b"code" * 8, 0, 4, ("asimddp",)), Code("base", "aarch64", b"more", 0, 0)],
        shards=[np.zeros(10, np.float32), b"123"],
        golden=[Golden([np.zeros((1, 3), np.float32)], [np.zeros(3, np.uint16)])],
    )
    write_artifact(tmp_path / "net.mcp26bin", contents)
    return tmp_path / "net.mcp26bin"


def test_everything_is_there_and_plain(path: Path) -> None:
    document = json.loads(json.dumps(inspect(path)))
    assert {key: document[key] for key in ("model_name", "target", "format_version", "runtime_version", "signed")} == {
        "model_name": "net",
        "target": "rock5b",
        "format_version": "1.1",
        "runtime_version": "1.1",
        "signed": False,
    }
    assert document["file_bytes"] == path.stat().st_size
    assert (document["code_bytes"], document["weights_bytes"]) == (36, 43)
    assert (document["flops"], document["predicted_us"], document["golden_cases"]) == (110, 1.75, 1)
    assert document["golden_bytes"] == 70 and document["golden_tensors"] == {"stored": 2, "drawn": 0, "sampled": 0}
    assert document["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": ["N", 3], "max_bytes": None, "optional": False}
    ]
    assert document["outputs"] == [{"name": "y", "dtype": "bfloat16", "shape": ["2*N + 1"], "max_bytes": 64}]
    assert document["symbols"] == [{"name": "N", "min": 1, "max": None}, {"name": "M", "min": 2, "max": 8}]
    assert document["code"][0] == {"name": "dotprod", "isa": "aarch64", "features": ["asimddp"], "bytes": 32}
    assert document["steps"][1] == {
        "index": 1,
        "name": "/b",
        "op": "Softmax",
        "kernel": "softmax",
        "shape": "",
        "flops": 10,
        "bytes": 8,
        "predicted_us": 0.25,
        "shards": [1],
    }
    assert document["decisions"][0]["numbers"] == {"saved_us": 3.0} and document["decisions"][0]["pass"] == "fuse"
    assert [each["spec"] for each in document["passes"]] == ["fold{limit=4}", "cse"]
    assert document["buffers"] == [{"name": "t", "offset": 64, "bytes": 256, "first_step": 0, "last_step": 1}]
    assert [(each["bytes"], each["steps"], len(each["sha256"])) for each in document["shards"]] == [
        (40, [0], 64),
        (3, [0, 1], 64),
    ]
    assert document["provenance"] == {"mcpc": "0.1.0", "source_sha256": "ab"}
    assert [each["kind"] for each in document["sections"]] == ["CODE", "CODE", "SHARD", "SHARD", "GOLDEN", "META"]


def test_sections_name_what_is_there(path: Path) -> None:
    document = inspect(path)
    assert {key for keys in SECTIONS.values() for key in keys} <= document.keys()


def test_errors_are_the_artifacts(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no artifact")
    with pytest.raises(FormatError) as caught:
        inspection.inspect(tmp_path / "text")
    assert caught.value.code == "E500"
