"""The verbs, on a real artifact: what they print, write and exit with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from onnx import TensorProto, helper

import mcpc
from mcpc.cli import cli, main
from mcpc.cli.inspect import _fusion
from mcpc.html_report import _decisions, render
from mcpc.models import digits


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mcpc.compile(digits.MODEL, "host", tmp_path_factory.mktemp("cli") / "digits.mcp26bin")


class Result:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def mcpc_run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command line and returns its :class:`Result`."""

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(each) for each in arguments])
        captured = capsys.readouterr()
        return Result(int(caught.value.code or 0), captured.out, captured.err)

    return run


# ---- help


def test_help_of_every_verb_has_an_example(mcpc_run: Any) -> None:
    assert set(cli.commands) == {
        *("compile", "inspect", "run", "bench", "verify", "selftest", "targets", "sdk", "demo")
    }
    for verb in cli.commands:
        result = mcpc_run(verb, "--help")
        assert result.status == 0 and f"mcpc {verb}" in result.out.split("Example:")[1], verb


def test_importing_the_command_line_is_light() -> None:
    heavy = "{'onnx', 'onnxruntime', 'sympy', 'numpy', 'rich'}"
    code = f"import sys, mcpc.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- compile


def test_compile_writes_the_file_and_says_so(mcpc_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = mcpc_run("compile", digits.MODEL)
    assert result.status == 0 and result.out.startswith("digits.mcp26bin: ") and "for host" in result.out
    assert (tmp_path / "digits.mcp26bin").read_bytes()[:8] == b"MCP26BIN"
    assert result.err == ""


def test_compile_options_reach_the_compiler(mcpc_run: Any, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "public.pem").write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    model = tmp_path / "n.onnx"
    onnx.save(digits.build(digits.trained(), "N"), model)
    output = tmp_path / "n.mcp26bin"
    result = mcpc_run(
        *("compile", model, "--target", "aarch64", "-o", output, "--input-shape", "image:2x1x8x8"),
        *("--passes", "fold, dce", "--golden", "2", "--sign", tmp_path / "key.pem", "--emit", tmp_path / "emit"),
        *("-j", "1", "--json"),
    )
    assert result.status == 0, result.err
    document = result.json
    assert document["output"] == str(output) and document["target"] == "aarch64" and document["signed"]
    assert document["inputs"][0]["shape"] == [2, 1, 8, 8] and document["golden_cases"] == 2
    assert [each["spec"] for each in document["passes"]][:2] == ["fold", "dce"]
    kept = {path.suffix for path in (tmp_path / "emit").rglob("*")}
    assert {".c", ".mcir", ".onnx"} <= kept


def test_one_reason_is_one_note(mcpc_run: Any, tmp_path: Path) -> None:
    """Products of two computed tensors stay floats, of which an encoder has two a layer."""
    nodes = [helper.make_node("MatMul", [x, "z"], [y], y) for x, y in (("x", "a"), ("a", "b"), ("b", "y"))]
    x, z, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xzy")
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x, z], [y])), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=np.ones((4, 4), np.float32), z=np.ones((4, 4), np.float32))
    asked = ("--precision", "int8", "--calib-data", tmp_path / "data.npz", "--no-golden", "-o", tmp_path / "m")
    result = mcpc_run("compile", tmp_path / "m.onnx", *asked)
    assert result.status == 0, result.err
    assert result.err.splitlines() == ["note: a and 2 more: float32: its right operand is not quantised"]


def test_int8_from_the_command_line(mcpc_run: Any, tmp_path: Path) -> None:
    images = digits.held_out()[0][:20]
    np.savez(tmp_path / "images.npz", image=images)
    first, second = tmp_path / "first.mcp26bin", tmp_path / "second.mcp26bin"
    table = ("--calib-table", tmp_path / "ranges.json")
    asked = ("compile", digits.MODEL, "--precision", "int8", "--symmetric-activations", *table)
    result = mcpc_run(*asked, "--calib-data", tmp_path / "images.npz", "--calib-method", "percentile", "-o", first)
    assert result.status == 0, result.err
    assert "note: ranges: percentile of 20 samples of images.npz, run by " in result.err
    again = mcpc_run(*asked, "-o", second)
    assert again.status == 0 and "20 samples" in again.err
    digests = [[each["sha256"] for each in mcpc.inspect(path)["shards"]] for path in (first, second)]
    assert digests[0] == digests[1]
    assert mcpc_run("selftest", second).status == 0
    assert mcpc_run(*asked[:4]).status == 2  # neither data nor a table
    assert mcpc_run(*asked, "--calib-data", tmp_path / "images.npz", "--calib-method", "max").status == 2
    assert mcpc_run("compile", digits.MODEL, *table).status == 2  # for float32


def test_no_golden_means_no_selftest(mcpc_run: Any, tmp_path: Path) -> None:
    output = tmp_path / "d.mcp26bin"
    assert mcpc_run("compile", digits.MODEL, "-o", output, "--no-golden", "-q").out == ""
    result = mcpc_run("selftest", output)
    assert result.status == 2 and "holds no self-test" in result.err


@pytest.mark.parametrize("shape", ["image", "image:1xNx8x8", ":1x2", "image:1x-2"])
def test_malformed_shapes_are_usage_errors(mcpc_run: Any, shape: str) -> None:
    result = mcpc_run("compile", digits.MODEL, "--input-shape", shape)
    assert result.status == 2 and result.err.startswith("error[E003]")


def test_an_output_that_cannot_be_written_is_told_before_the_work(
    mcpc_run: Any, artifact: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "missing" / "out"
    for arguments in (
        ["compile", digits.MODEL, "--emit", tmp_path / "emit"],
        ["run", artifact, "--random-inputs", "0"],
    ):
        result = mcpc_run(*arguments, "-o", missing)
        assert result.status == 2 and result.err.startswith(f"error[E002]: {missing} cannot be written: there is no")
    assert not list(tmp_path.iterdir())


def test_the_model_is_not_overwritten(mcpc_run: Any, tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(digits.MODEL.read_bytes())
    result = mcpc_run("compile", model, "-o", tmp_path / ".." / tmp_path.name / "net.onnx")
    assert result.status == 2 and "error[E001]" in result.err
    assert model.read_bytes() == digits.MODEL.read_bytes()


def test_every_unsupported_node_is_reported_at_once(mcpc_run: Any, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Nope", ["x"], ["a"], name="first", domain="example"),
        helper.make_node("Never", ["a"], ["y"], name="second", domain="example"),
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), tmp_path / "m.onnx")
    result = mcpc_run("compile", tmp_path / "m.onnx", "-o", tmp_path / "m.mcp26bin", "--json")
    assert result.status == 3 and not (tmp_path / "m.mcp26bin").exists()
    assert {error.get("node") for error in result.json["errors"]} >= {"first", "second"}
    errors = [line for line in result.err.splitlines() if line.startswith("error[E101]")]
    assert any("'first'" in line for line in errors) and any("'second'" in line for line in errors)


def test_faults_of_model_and_target_have_their_statuses(mcpc_run: Any, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"nothing")
    result = mcpc_run("compile", tmp_path / "m.onnx")
    assert (result.status, result.err[:12]) == (3, "error[E100]:")
    result = mcpc_run("compile", digits.MODEL, "--target", "rock5")
    assert result.status == 4 and "rock5b" in result.err
    assert mcpc_run("compile", tmp_path / "missing.onnx").status == 2


# ---- inspect


@pytest.mark.parametrize("section", ["summary", "steps", "fusion", "memory", "shards", "provenance"])
def test_inspect_shows_each_section(mcpc_run: Any, artifact: Path, section: str) -> None:
    text = mcpc_run("inspect", artifact, "--section", section)
    assert text.status == 0 and len(text.out.splitlines()) >= 2
    part = mcpc_run("inspect", artifact, "--section", section, "--json").json
    assert part and set(part) < set(mcpc.inspect(artifact))


def test_fusion_shows_both_times_of_boundaries_and_their_sums(tmp_path: Path, mcpc_run: Any) -> None:
    numbers = [{"bytes_saved": 64.0, "split_us": 3.0, "fused_us": 1.5}, {"split_us": 2000.0, "fused_us": 10.0}, {}]
    decisions = [
        {"pass": "fuse", "subject": f"/{index}", "action": "fuse", "reason": "near", "numbers": each}
        for index, each in enumerate(numbers)
    ]
    header, *rows, total = [line.split() for line in _fusion({"decisions": decisions}).splitlines()]
    assert header == ["pass", "action", "subject", "split", "fused", "reason", "numbers"]
    assert rows[0] == ["fuse", "fuse", "/0", "3.0", "µs", "1.5", "µs", "near", "bytes_saved", "64"]
    assert rows[2] == ["fuse", "fuse", "/2", "near"]
    assert total == ["total", "fuse", "2", "boundaries", "2.00", "ms", "11.5", "µs"]
    page = _decisions(decisions)
    assert '<td class="number">2.00 ms</td><td class="number">11.5 µs</td><td>2 boundaries</td>' in page


def test_inspect_counts_the_self_tests_cases(mcpc_run: Any, artifact: Path) -> None:
    assert "self-test 1 case, " in mcpc_run("inspect", artifact).out


def test_inspect_json_is_the_python_dict(mcpc_run: Any, artifact: Path) -> None:
    assert mcpc_run("inspect", artifact, "--json").json == mcpc.inspect(artifact)


class _Balance(HTMLParser):
    """Collects element counts and checks that tags close in order."""

    VOID = ("meta", "br", "line", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_inspect_html_is_one_whole_page(mcpc_run: Any, artifact: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert mcpc_run("inspect", artifact, "--html", page).status == 0
    text = page.read_text(encoding="utf-8")
    parser = _Balance()
    parser.feed(text)
    document = mcpc.inspect(artifact)
    assert parser.open == [] and parser.counts["rect"] == len(document["buffers"]) > 0
    assert not re.search(r'(src|href)="|url\(|@import', text)
    for step in document["steps"]:
        assert step["kernel"] in text


def test_html_escapes_hostile_names(artifact: Path) -> None:
    document = mcpc.inspect(artifact)
    evil = "<script>alert(1)</script>\"'"
    document["model_name"] = evil
    document["inputs"][0]["name"] = evil
    document["buffers"][0]["name"] = evil
    for key in ("name", "op", "kernel", "shape"):
        document["steps"][0][key] = evil
    for key in ("pass", "subject", "action", "reason"):
        document["decisions"][0][key] = evil
    document["provenance"] = {evil: evil}
    assert "<script" not in render(document)


# ---- run, bench, verify, selftest


def test_run_reads_and_writes_arrays(mcpc_run: Any, artifact: Path, tmp_path: Path) -> None:
    images, labels = digits.held_out()
    np.save(tmp_path / "image.npy", images[:1])
    output = tmp_path / "result"
    result = mcpc_run("run", artifact, "--input", f"image={tmp_path / 'image.npy'}", "-o", output)
    assert result.status == 0, result.err
    with np.load(output) as saved:
        assert saved["probabilities"].argmax() == labels[0]
    summary = mcpc_run("run", artifact, "--random-inputs", "3", "--json").json["outputs"][0]
    assert summary["name"] == "probabilities" and summary["shape"] == [1, 10]
    assert summary["mean"] == pytest.approx(0.1, rel=1e-4)


def test_run_refuses_inputs_that_do_not_fit(mcpc_run: Any, artifact: Path, tmp_path: Path) -> None:
    assert "no inputs" in mcpc_run("run", artifact).err
    np.save(tmp_path / "wrong.npy", np.zeros((1, 1, 8, 9), np.float32))
    result = mcpc_run("run", artifact, "--input", f"image={tmp_path / 'wrong.npy'}", "--json")
    assert result.status == 1 and result.json["errors"][0]["code"] == "E602"
    np.save(tmp_path / "int.npy", np.zeros((1, 1, 8, 8), np.int32))
    assert "error[E601]" in mcpc_run("run", artifact, "--input", f"image={tmp_path / 'int.npy'}").err
    result = mcpc_run("run", artifact, "--input", f"pixels={tmp_path / 'wrong.npy'}")
    assert result.err.count("error[E600]") == 2  # one unknown, one missing


def test_bench_prints_the_agreed_object(mcpc_run: Any, artifact: Path) -> None:
    result = mcpc_run(
        *("bench", artifact, "--threads", "1", "--warmup", "1", "--iterations", "5", "--profile", "--json")
    ).json
    assert set(result["latency_ms"]) == {"min", "p50", "p90", "p99"} and result["iterations"] == 5
    assert 0 < result["latency_ms"]["min"] <= result["latency_ms"]["p50"] <= result["latency_ms"]["p99"]
    assert result["open_ms"] > 0 and result["first_run_ms"] > 0 and result["peak_rss_mib"] > 10
    document = mcpc.inspect(artifact)
    assert (result["arena_bytes"], result["weights_bytes"]) == (document["arena_bytes"], document["weights_bytes"])
    assert [step["name"] for step in result["steps"]] == [step["name"] for step in document["steps"]]
    assert all({"kernel", "ms", "predicted_ms"} <= set(step) for step in result["steps"])
    text = mcpc_run("bench", artifact, "--warmup", "0", "--iterations", "1").out
    assert text.startswith("latency") and "steps" not in text


def test_verify_and_selftest_agree_with_onnxruntime(mcpc_run: Any, artifact: Path) -> None:
    assert mcpc_run("verify", artifact, digits.MODEL).status == 0
    assert mcpc_run("selftest", artifact, "--json").json["matches"] is True


def test_verify_names_what_differs(mcpc_run: Any, artifact: Path, tmp_path: Path) -> None:
    parameters = digits.trained()
    parameters["fc.weight"] *= -1
    onnx.save(digits.build(parameters), tmp_path / "other.onnx")
    result = mcpc_run("verify", artifact, tmp_path / "other.onnx")
    assert result.status == 1 and "DIFFERS" in result.out
    assert result.err.startswith("error[E606]: output 'probabilities' differs in ")
    result = mcpc_run("verify", artifact, tmp_path / "other.onnx", "--json")
    assert result.status == 1 and result.json["matches"] is False and result.json["errors"][0]["code"] == "E606"
    assert mcpc_run("verify", artifact, tmp_path / "other.onnx", "--atol", "2").status == 0


def test_damaged_artifacts_have_status_5(mcpc_run: Any, artifact: Path, tmp_path: Path) -> None:
    whole = artifact.read_bytes()
    for name, data in {"cut": whole[:-1], "other": b"x" * 100, "header": whole[:9] + b"\xff" + whole[10:]}.items():
        path = tmp_path / name
        path.write_bytes(data)
        for verb in ("inspect", "selftest", "bench"):
            result = mcpc_run(verb, path, "--json")
            assert result.status == 5 and result.json["errors"][0]["code"].startswith("E50"), (name, verb)


# ---- targets, the whole process


def test_targets(mcpc_run: Any) -> None:
    names = {target["name"] for target in mcpc_run("targets", "list", "--json").json}
    assert names >= {"host", "x86-64-v3", "x86-64-v4", "aarch64", "rock5b", "rpi5"}
    assert all(name in mcpc_run("targets", "list").out for name in names)
    shown = mcpc_run("targets", "show", "rock5b")
    assert "Cortex-A76" in shown.out and "asimddp" in shown.out
    assert mcpc_run("targets", "show", "rock5b", "--json").json["isa"] == "aarch64"
    assert mcpc_run("targets", "show", "nope").status == 4


def test_the_installed_command_exits_with_the_status(artifact: Path, tmp_path: Path) -> None:
    def status(*arguments: object) -> int:
        command = [sys.executable, "-m", "mcpc", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, cwd=tmp_path, check=False).returncode

    (tmp_path / "bad").write_bytes(b"bad")
    assert status("--version") == 0
    assert status("compile", "missing.onnx") == 2
    assert status("inspect", "bad") == 5


def test_a_closed_pipe_is_no_error(artifact: Path) -> None:
    command = f"'{sys.executable}' -m mcpc inspect '{artifact}' --json | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{", "")
