"""The measurements run, and write what they measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

BENCH = Path(__file__).parent.parent / "bench"

#: A peer's package as seen by its adapter: it answers as ONNX Runtime does, and loses a digit.
FAKE_OPENVINO = """
import onnxruntime, pathlib, shutil
class Core:
    def read_model(self, path): self.path = path; return self
    def reshape(self, shapes): assert list(shapes) == ["image"] and shapes["image"][0] == 1
    def compile_model(self, path, device, settings):
        assert device == "CPU" and settings["INFERENCE_NUM_THREADS"] in ("1", "2")
        return Compiled(path)
class Compiled:
    outputs = [0]
    def __init__(self, path): self.session = onnxruntime.InferenceSession(str(path))
    def create_infer_request(self): return self
    def infer(self, feeds, share_inputs, share_outputs): return [self.session.run(None, feeds)[0] * 1.001]
def save_model(core, path, compress_to_fp16): shutil.copy(core.path, path)
"""


def compare(tmp_path: Path, *options: str) -> dict[str, Any]:
    """What the script writes about digits, with packages in ``tmp_path`` seen by it."""
    command = [sys.executable, str(BENCH / "compare.py"), "--models", "digits", "--rounds", "2", "--starts", "1"]
    command += ["--name", "r", "--output", str(tmp_path), *options]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((tmp_path / "r.json").read_text())
    return document


def test_comparison_writes_numbers_tables_and_a_chart(tmp_path: Path) -> None:
    document = compare(tmp_path, "--peers", "onnxruntime")
    assert [(row["model"], row["threads"]) for row in document["results"]] == [("digits", 1), ("digits", 2)]
    for row in document["results"]:
        ours, theirs, ratio = row["latency"]["mcpc"], row["latency"]["onnxruntime"], row["ratio"]["onnxruntime"]
        assert abs(ratio["median"] * ours["median"] / theirs["median"] - 1) < 0.05  # the times are rounded
        assert ratio["lowest_round"] <= ratio["highest_round"] and 0 < ours["min"] <= ours["median"]
        assert row["relative_difference"]["mcpc"] < 1e-4
        assert row["error"]["mcpc"] < 1e-5 and row["error"]["onnxruntime"] < 1e-5
        assert all(10 < row["peak_rss_mib"][who] < 1000 for who in ("mcpc", "onnxruntime"))
        assert row["starts"]["mcpc"]["load_ms"] > 0 and 0 < row["weights_bytes"] < row["artifact_bytes"]
    assert document["versions"]["onnxruntime"] == version("onnxruntime")
    assert "| digits | 1 |" in (tmp_path / "r.md").read_text()
    chart = ElementTree.parse(tmp_path / "r.svg").getroot()
    assert sum(each.tag.endswith("rect") for each in chart) == 1 + len(document["results"])


def test_peers_run_where_they_are_installed(tmp_path: Path) -> None:
    (tmp_path / "openvino.py").write_text(FAKE_OPENVINO)
    (tmp_path / "MNN.py").write_text("raise ModuleNotFoundError('no', name='MNN')")
    about = tmp_path / "openvino-9.8.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: openvino\nVersion: 9.8\n")
    document = compare(tmp_path, "--peers", "onnxruntime,openvino,MNN", "--threads", "1")
    (row,) = document["results"]
    assert document["peers"] == ["onnxruntime", "openvino"] and document["versions"]["openvino"] == "9.8"
    assert row["relative_difference"]["openvino"] == pytest.approx(1e-3, rel=1e-3)
    assert set(row["ratio"]) == {"onnxruntime", "openvino"}
    assert "is not installed" in row["unable"]["MNN"]
    assert "openvino ms" in (tmp_path / "r.md").read_text()


def test_double_precision_is_that_of_all_weights_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import float64

    third = np.array(1 / 3, np.float32)
    nodes = [
        helper.make_node("Constant", [], ["tenth"], value_float=float(np.float32(0.1))),
        helper.make_node("Cast", ["n"], ["whole"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "third"], ["a"]),
        helper.make_node("Mul", ["a", "tenth"], ["b"]),
        helper.make_node("Add", ["b", "whole"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    n = helper.make_tensor_value_info("n", TensorProto.INT64, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "g", [x, n], [y], [onnx.numpy_helper.from_array(third, "third")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    feeds: dict[str, Any] = {"x": np.array([0.3, -7.7], np.float32), "n": np.array([1, 2], np.int64)}
    (got,) = float64.evaluate(model, feeds)
    want = feeds["x"].astype(float) * float(third) * float(np.float32(0.1)) + feeds["n"]
    np.testing.assert_array_equal(got, want)
    assert float64.error([got.astype(np.float32)], [got]) < 2**-23
    assert float64.error([got * 1.5], [got]) == pytest.approx(0.5)


def test_layers_lists_each_product_with_its_sizes(tmp_path: Path) -> None:
    script, page = BENCH / "layers.py", tmp_path / "layers.md"
    options = ["--model", "digits", "--targets", "host", "--rounds", "2", "--output", str(page)]
    done = subprocess.run([sys.executable, str(script), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    assert [row[:3] for row in rows[1:-1]] == [
        ["Conv 3x3", "64 x 9 x 16", "1"],
        ["Conv 3x3", "64 x 144 x 32", "1"],
        ["Gemm", "1 x 512 x 10", "1"],
    ]
    assert all(float(row[3]) >= 0 and float(row[4]) > 0 and float(row[6]) > 0 for row in rows[1:-1])
