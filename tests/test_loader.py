"""Running artifacts from Python, on a small module written here against the code ABI."""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import mcpc
from mcpc import _schema, container, loader, runtime_api
from mcpc.artifact import Artifact, Code, Contents, write_artifact
from mcpc.benchmark import benchmark
from mcpc.container import Kind
from mcpc.errors import ErrorGroup, FormatError, RuntimeFault, UsageError
from mcpc.golden import Golden
from mcpc.loader import Session, load
from mcpc.runtime_handle import Handle, Slot
from mcpc.targets.native.image import Image, flatten
from mcpc.targets.native.toolchain import Machine, Unit, compile_objects, link_image

MACHINE = platform.machine()
INCLUDE = Path(__file__).resolve().parent.parent / "runtime" / "include"

#: y[N, 4] = x[N, 4] * w[k] + runs since reset; row[4] = w[k]; count[k + 1] = 0, 1, …, whose size only step 1 knows.
SOURCE = """
#include "mcp26_abi.h"
__attribute__((visibility("default"))) int64_t mcp26_entry(mcp26_env *env, uint32_t step);
__attribute__((visibility("default"))) int32_t mcp26_plan(mcp26_env *env, uint32_t step);

struct args { const float *x, *w; float *y; float runs; };

static int32_t scale(mcp26_env *env, void *arg, int64_t begin, int64_t end, uint32_t worker) {
    const struct args *a = arg;
    (void)env; (void)worker;
    for (int64_t i = begin * 4; i < end * 4; i++) a->y[i] = a->x[i] * a->w[i % 4] + a->runs;
    return 0;
}

int64_t mcp26_entry(mcp26_env *env, uint32_t step) {
    int32_t k = *(const int32_t *)env->inputs[1].data;
    if (k < 0 || k > 1) {
        env->fault = (mcp26_fault){step, MCP26_DATA_INDEX, k, 2};
        return MCP26_STEP_DATA;
    }
    const float *w = (const float *)env->shards[0].base + 4 * k;
    if (step == 0) {
        float *runs = (float *)env->state;
        struct args a = {(const float *)env->inputs[0].data, w, (float *)env->outputs[0].data, *runs};
        int32_t status = env->parallel_for(env, scale, &a, env->symbols[0], 1);
        if (status < 0) return status;
        for (int i = 0; i < 4; i++) ((float *)env->outputs[1].data)[i] = w[i];
        *runs += 1;
        return 1;
    }
    env->outputs[2].shape[0] = k + 1;
    for (int32_t i = 0; i <= k; i++) ((int64_t *)env->outputs[2].data)[i] = i;
    return 2;
}

int32_t mcp26_plan(mcp26_env *env, uint32_t step) {
    (void)step;
    env->outputs[0].shape[0] = env->symbols[0];
    env->outputs[2].shape[0] = -1;
    return 0;
}
"""

WEIGHTS = np.array([[1, 2, 3, 4], [10, 20, 30, 40]], np.float32)


def tensor(name: str, dtype: int, dims: list[tuple[int, int]], texts: list[str], max_bytes: int) -> _schema.TensorT:
    refs = [_schema.DimRefT(value, symbol) for value, symbol in dims]
    return _schema.TensorT(name=name, dtype=dtype, dims=refs, dimTexts=texts, maxBytes=max_bytes)


def contents(image: Image) -> Contents:
    meta = _schema.MetaT(
        modelName="scale",
        target="host",
        abiVersion=1,
        inputs=[tensor("x", 1, [(-1, 0), (4, -1)], ["N", "4"], 1024), tensor("k", 6, [], [], 4)],
        outputs=[
            tensor("y", 1, [(-1, -1), (4, -1)], ["N", "4"], 1024),
            tensor("row", 1, [(4, -1)], ["4"], 16),
            tensor("count", 7, [(-1, -1)], ["k + 1"], 16),
        ],
        symbols=[_schema.SymbolT("N", 0, 64)],
        steps=[
            _schema.StepT(
                name="/scale", op="Mul+Add", kernel="scale", shards=[0], flops=8, shape="Nx4", predictedUs=2.5
            ),
            _schema.StepT(name="/count", op="Range", kernel="range"),
        ],
        stateBytes=4,
    )
    isa = {"x86_64": "x86-64"}.get(MACHINE, MACHINE)
    entry, plan = image.entries["mcp26_entry"], image.entries["mcp26_plan"]
    fed = feeds(5, 1)
    golden = Golden([fed["x"], fed["k"]], [expected(fed), WEIGHTS[1], np.arange(2)])
    return Contents(meta, [Code("base", isa, image.data, entry, plan)], [WEIGHTS], [golden])


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        machine = Machine(f"{MACHINE}-linux-none", "x86_64" if MACHINE == "x86_64" else "generic")
        return flatten(link_image(compile_objects([Unit("scale", SOURCE)], machine, [INCLUDE]), machine))


@pytest.fixture
def path(image: Image, tmp_path: Path) -> Path:
    write_artifact(tmp_path / "scale.mcp26bin", contents(image))
    return tmp_path / "scale.mcp26bin"


@pytest.fixture
def session(path: Path) -> Iterator[Session]:
    with load(path, threads=2) as opened:
        yield opened


def feeds(rows: int = 3, k: int = 1) -> dict[str, Any]:
    return {"x": np.arange(rows * 4, dtype=np.float32).reshape(rows, 4), "k": np.array(k, np.int32)}


def expected(fed: dict[str, Any], runs: int = 0) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = np.asarray(fed["x"], np.float32) * WEIGHTS[int(fed["k"])] + np.float32(runs)
    return result


def fails(session: Session, fed: dict[str, Any], code: str) -> str:
    with pytest.raises(RuntimeFault) as caught:
        session.run(None, fed)
    assert caught.value.code == code
    return str(caught.value)


def test_description_is_like_onnx_runtimes(session: Session) -> None:
    assert [(i.name, i.shape, i.type) for i in session.get_inputs()] == [
        ("x", ["N", 4], "tensor(float)"),
        ("k", [], "tensor(int32)"),
    ]
    assert [(o.name, o.shape, o.type) for o in session.get_outputs()] == [
        ("y", ["N", 4], "tensor(float)"),
        ("row", [4], "tensor(float)"),
        ("count", ["k + 1"], "tensor(int64)"),
    ]
    assert session.bounds == {"N": (0, 64)} and session.threads == 2 and session.variant == "base"
    assert session.memory_bytes > 1024


def test_run_returns_fresh_arrays_of_true_shape(session: Session) -> None:
    results = []
    for run, (rows, k) in enumerate([(3, 1), (64, 0), (0, 1), (1, 0)]):
        fed = feeds(rows, k)
        y, row, count = session.run(None, fed)
        np.testing.assert_array_equal(y, expected(fed, run))
        np.testing.assert_array_equal(row, WEIGHTS[k])
        np.testing.assert_array_equal(count, np.arange(k + 1))
        assert (y.dtype, y.shape, count.dtype) == (np.float32, (rows, 4), np.int64)
        results.append((y, y.copy()))
    for array, copy in results:
        np.testing.assert_array_equal(array, copy)


def test_outputs_of_symbolic_size_are_written_where_they_are_returned(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what the data size is copied: y follows x, count follows what k holds."""
    copied: list[str] = []
    copy = Handle.output_copy

    def copy_and_tell(self: Handle, slot: Slot) -> Any:
        copied.append(slot.name)
        return copy(self, slot)

    monkeypatch.setattr(Handle, "output_copy", copy_and_tell)
    kept = []
    for run, (rows, k) in enumerate(((3, 1), (3, 0), (64, 1), (0, 0), (7, 1))):
        y, _, count = session.run(None, feeds(rows, k))
        kept.append((y, expected(feeds(rows, k), run)))
        assert np.array_equal(count, np.arange(k + 1))
    assert all(np.array_equal(y, want) for y, want in kept)
    assert set(copied) == {"count"}


def test_golden_case_in_the_file_is_what_a_run_gives(session: Session, path: Path) -> None:
    with Artifact.open(path) as artifact:
        (case,) = artifact.golden()
    names = [tensor.name for tensor in session.get_inputs()]
    for got, want in zip(session.run(None, dict(zip(names, case.feeds(), strict=True))), case.outputs, strict=True):
        np.testing.assert_array_equal(got, want)
        assert isinstance(want, np.ndarray) and got.dtype == want.dtype


def test_chosen_outputs_come_in_the_order_asked_for(session: Session) -> None:
    row, y = session.run(["row", "y"], feeds())
    assert row.shape == (4,) and y.shape == (3, 4)
    (count,) = session.run(["count"], feeds(k=0))
    np.testing.assert_array_equal(count, [0])
    assert session.run([], feeds()) == []
    with pytest.raises(RuntimeFault, match="no output 'z'") as caught:
        session.run(["z"], feeds())
    assert caught.value.code == "E607" and "'count'" in caught.value.hint


def test_any_memory_layout_is_taken(session: Session) -> None:
    x = np.random.default_rng(0).random((6, 4), dtype=np.float32)
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(6, 4)
    assert not unaligned.flags.aligned
    read_only = x.copy()
    read_only.flags.writeable = False
    for runs, variant in enumerate([x, np.asfortranarray(x), x.astype(">f4"), unaligned, read_only, x.tolist()]):
        if isinstance(variant, list):
            variant = np.array(variant, np.float32)
        y = session.run(["y"], {"x": variant, "k": np.int32(1)})[0]
        np.testing.assert_array_equal(y, x * WEIGHTS[1] + np.float32(runs))
    strided = np.repeat(x, 2, axis=0)[::2]
    assert not strided.flags.c_contiguous
    y = session.run(["y"], {"x": strided[::-1], "k": np.array(1, ">i4")})[0]
    np.testing.assert_array_equal(y, x[::-1] * WEIGHTS[1] + np.float32(6))


def test_names_are_checked_all_at_once(session: Session) -> None:
    x, k = feeds()["x"], feeds()["k"]
    assert "input 'k' is missing" in fails(session, {"x": x}, "E600")
    assert "no input 'z'" in fails(session, {"x": x, "k": k, "z": x}, "E600")
    with pytest.raises(ErrorGroup) as caught:
        session.run(None, {"X": x})
    assert {error.message for error in caught.value.errors} == {
        "no input 'X'",
        "input 'x' is missing",
        "input 'k' is missing",
    }


def test_element_types_are_checked(session: Session) -> None:
    fed = feeds()
    message = fails(session, {**fed, "x": fed["x"].astype(np.float64)}, "E601")
    assert "'x'" in message and "float32" in message and "float64" in message
    assert "int64" in fails(session, {**fed, "k": 1}, "E601")
    fails(session, {**fed, "x": "text"}, "E601")
    fails(session, {**fed, "x": [[1.0], [1.0, 2.0]]}, "E601")
    fails(session, {**fed, "x": None}, "E601")


def test_shapes_are_checked(session: Session) -> None:
    fed = feeds()
    message = fails(session, {**fed, "x": np.zeros((3, 5), np.float32)}, "E602")
    assert "'x'" in message and "dimension 1" in message and "expected 4" in message and "got 5" in message
    assert "rank" in fails(session, {**fed, "x": np.zeros((3, 4, 1), np.float32)}, "E602")
    assert "rank" in fails(session, {**fed, "k": np.zeros(1, np.int32)}, "E602")
    message = fails(session, {**fed, "x": np.zeros((65, 4), np.float32)}, "E602")
    assert "N" in message and "64" in message and "65" in message
    np.testing.assert_array_equal(session.run(["y"], fed)[0], expected(fed))


def test_what_only_the_data_show_is_reported(session: Session) -> None:
    message = fails(session, feeds(k=2), "E603")
    assert "/scale" in message and "index 2" in message
    fails(session, feeds(k=-1), "E603")
    np.testing.assert_array_equal(session.run(["y"], feeds())[0], expected(feeds()))


def test_state_lives_until_reset(session: Session) -> None:
    fed = feeds()
    for runs in 0, 1, 2:
        np.testing.assert_array_equal(session.run(["y"], fed)[0], expected(fed, runs))
    session.reset_state()
    np.testing.assert_array_equal(session.run(["y"], fed)[0], expected(fed, 0))


def test_bound_tensors_are_used_in_place(session: Session) -> None:
    fed = feeds()
    x, y = fed["x"], np.full((3, 4), np.nan, np.float32)
    session.bind("x", x)
    session.bind("k", fed["k"])
    session.bind("y", y)
    first, row, count = session.run_bound()
    assert np.shares_memory(first, y) and row.tolist() == WEIGHTS[1].tolist() and count.tolist() == [0, 1]
    np.testing.assert_array_equal(y, expected(fed))
    x += 1
    second, row_again, _ = session.run_bound()
    np.testing.assert_array_equal(y, expected(fed, 1))
    assert np.shares_memory(second, y) and np.shares_memory(row, row_again)
    # An ordinary run in between leaves the bindings alone, and their memory.
    other = feeds(5, 0)
    before = y.copy()
    np.testing.assert_array_equal(session.run(["y"], other)[0], expected(other, 2))
    np.testing.assert_array_equal(y, before)
    session.run_bound()
    np.testing.assert_array_equal(y, expected(fed, 3))
    # Back to the session's memory.
    session.bind("y", None)
    free = session.run_bound()[0]
    assert not np.shares_memory(free, y)
    np.testing.assert_array_equal(free, expected(fed, 4))


def test_large_output_buffer_holds_any_shape(session: Session) -> None:
    y = np.zeros((64, 4), np.float32)
    session.bind("y", y)
    session.bind("k", np.array(0, np.int32))
    for rows in 5, 64, 0:
        session.bind("x", np.ones((rows, 4), np.float32))
        result = session.run_bound()[0]
        assert result.shape == (rows, 4) and (rows == 0 or np.shares_memory(result, y))
    session.bind("y", np.zeros((2, 4), np.float32))
    session.bind("x", np.ones((3, 4), np.float32))
    with pytest.raises(RuntimeFault, match="'y'") as caught:
        session.run_bound()
    assert caught.value.code == "E602"


class OnlyDLPack:
    """A tensor of another library, as far as we can see."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack_in_and_out(session: Session) -> None:
    fed = feeds()
    y = np.zeros((3, 4), np.float32)
    session.bind("x", OnlyDLPack(fed["x"]))
    session.bind("k", OnlyDLPack(fed["k"]))
    session.bind("y", OnlyDLPack(y))
    _, row, _ = session.run_bound()
    np.testing.assert_array_equal(y, expected(fed))
    np.testing.assert_array_equal(np.from_dlpack(row), WEIGHTS[1])
    got = session.run(["y"], {name: OnlyDLPack(array) for name, array in fed.items()})[0]
    np.testing.assert_array_equal(got, expected(fed, 1))


def test_unbindable_tensors_are_refused(session: Session) -> None:
    x = feeds()["x"]
    read_only = np.zeros((3, 4), np.float32)
    read_only.flags.writeable = False
    for name, array, code in (
        ("x", np.asfortranarray(x), "E607"),
        ("x", x.astype(">f4"), "E601"),
        ("x", x.astype(np.float64), "E601"),
        ("y", read_only, "E607"),
        ("z", x, "E607"),
    ):
        with pytest.raises(RuntimeFault) as caught:
            session.bind(name, array)
        assert caught.value.code == code
    with pytest.raises(ErrorGroup) as caught_group:
        session.run_bound()
    assert [error.code for error in caught_group.value.errors] == ["E600", "E600"]


def test_outputs_in_place_outlive_the_session(path: Path) -> None:
    session = load(path)
    session.bind("x", feeds()["x"])
    session.bind("k", feeds()["k"])
    y = session.run_bound()[0]
    session.close()
    del session
    np.testing.assert_array_equal(y, expected(feeds()))


def test_closed_session_says_so(session: Session) -> None:
    session.close()
    session.close()
    for call in (
        lambda: session.run(None, feeds()),
        session.run_bound,
        session.reset_state,
        session.profile,
        lambda: session.bind("x", feeds()["x"]),
        lambda: session.threads,
    ):
        with pytest.raises(RuntimeFault, match="closed") as caught:
            call()
        assert caught.value.code == "E607"


def test_cancelled_run(session: Session) -> None:
    session.cancel()
    fails(session, feeds(), "E604")
    np.testing.assert_array_equal(session.run(["y"], feeds())[0], expected(feeds()))


def test_profile_has_an_entry_a_step(session: Session) -> None:
    steps = session.profile(feeds())
    assert [(s["name"], s["op"], s["kernel"], s["shape"]) for s in steps] == [
        ("/scale", "Mul+Add", "scale", "Nx4"),
        ("/count", "Range", "range", ""),
    ]
    assert steps[0]["predicted_ms"] == pytest.approx(0.0025) and steps[0]["flops"] == 8
    assert all(step["ms"] >= 0 for step in steps) and sum(step["ms"] for step in steps) > 0
    session.bind("x", feeds()["x"])
    session.bind("k", feeds()["k"])
    assert len(session.profile()) == 2


def test_threads_that_share_a_session_wait_for_each_other(session: Session) -> None:
    wrong = []

    def work(rows: int) -> None:
        fed = feeds(rows, rows % 2)
        for _ in range(200):
            y, row, _ = session.run(None, fed)
            base = fed["x"] * WEIGHTS[rows % 2]
            if y.shape != base.shape or not np.array_equal(y - base, np.full_like(y, (y - base).flat[0])):
                wrong.append(y)
            if row.tolist() != WEIGHTS[rows % 2].tolist():
                wrong.append(row)

    threads = [threading.Thread(target=work, args=(rows,)) for rows in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_options(path: Path) -> None:
    wrong: list[dict[str, Any]] = [{"threads": 0}, {"affinity": "medium"}, {"memory_budget": -1}]
    wrong += [{"threads": 100_000}, {"threads": 1 << 40}, {"memory_budget": 1 << 64}]  # ctypes would cut them
    for options in wrong:
        with pytest.raises(UsageError) as caught:
            load(path, **options)
        assert caught.value.code == "E001"
    with pytest.raises(RuntimeFault, match="budget") as caught_fault:
        load(path, memory_budget=16)
    assert caught_fault.value.code == "E605"
    for affinity in "all", "big", "little":
        with load(path, threads=1, affinity=affinity, memory_budget=1 << 26) as session:
            np.testing.assert_array_equal(session.run(["y"], feeds())[0], expected(feeds()))


def test_benchmark_places_the_calling_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, allowed = min(os.sched_getaffinity(0)), os.sched_getaffinity(0)
    asked: list[str] = []

    def place(affinity: str) -> None:  # a machine with one core of each kind
        asked.append(affinity)
        os.sched_setaffinity(0, {one})

    seen: list[set[int]] = []
    run = Session.run

    def watched(*arguments: Any) -> list[Any]:
        seen.append(os.sched_getaffinity(0))
        return run(*arguments)

    monkeypatch.setattr(loader, "place_thread", place)
    monkeypatch.setattr(Session, "run", watched)
    benchmark(path, threads=1, affinity="big", warmup=0, iterations=1)
    assert asked == ["big"] and seen and all(cores == {one} for cores in seen)
    assert os.sched_getaffinity(0) == allowed


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as caught:
        load(path, threads=1)
    return caught.value.code


def test_damaged_artifacts_are_refused(path: Path) -> None:
    data = path.read_bytes()
    with Artifact.open(path) as artifact:
        sections = artifact.container.sections
    for length in [*range(0, 64, 7), 64, 200, len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        assert refusal(path) in ("E500", "E501")
    guarded = list(range(64 + 32 * len(sections)))
    for section in sections:
        if section.kind in (Kind.META, Kind.CODE):
            guarded += range(section.offset, section.offset + section.size)
    path.write_bytes(data)
    rng = random.Random(26)
    with path.open("r+b", buffering=0) as file:
        for _ in range(500):
            position = rng.choice(guarded)
            file.seek(position)
            file.write(bytes([data[position] ^ rng.randrange(1, 256)]))
            assert refusal(path) in ("E500", "E501")
            file.seek(position)
            file.write(data[position : position + 1])
    load(path).close()


def test_other_files_and_versions(path: Path, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").write_bytes(bytes(500))
    assert refusal(tmp_path / "other") == "E500"
    assert refusal(tmp_path / "missing") == "E500"
    for name, value in ("FORMAT_VERSION", (2, 0)), ("RUNTIME_VERSION", (9, 0)):
        with monkeypatch.context() as patch:
            patch.setattr(container, name, value)
            write_artifact(path, contents(image))
        assert refusal(path) == "E502"
    foreign = contents(image)
    foreign.code = [Code("sve", "aarch64" if MACHINE == "x86_64" else "x86-64", image.data, 0, 0)]
    write_artifact(path, foreign)
    assert refusal(path) == "E503"


def test_signature_is_checked_where_a_key_is_given(path: Path, image: Image, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    private, public = tmp_path / "key.pem", tmp_path / "public.pem"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(FormatError) as caught:
        load(path, verify_key=public)
    assert caught.value.code == "E504"
    write_artifact(path, contents(image), sign_key=private)
    load(path, verify_key=public).close()
    with Artifact.open(path) as artifact:
        weights = artifact.container.sections[artifact.meta.shards[0].section]
    with path.open("r+b") as file:
        file.seek(weights.offset)
        file.write(b"\x01")
    load(path).close()
    with pytest.raises(FormatError) as caught:
        load(path, verify_key=public)
    assert caught.value.code == "E501"


def test_missing_library_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPC_RUNTIME_LIBRARY", str(tmp_path / "nowhere.so"))
    runtime_api.library.cache_clear()
    try:
        with pytest.raises(RuntimeFault, match=r"nowhere\.so") as caught:
            load(tmp_path / "any")
        assert caught.value.code == "E608"
    finally:
        runtime_api.library.cache_clear()


def test_loading_imports_numpy_and_nothing_heavy(path: Path) -> None:
    script = (
        "import sys, numpy, mcpc\n"
        "before = set(sys.modules)\n"
        f"mcpc.load({str(path)!r}).close()\n"
        "heavy = {'onnx', 'onnxruntime', 'sympy', 'ziglang', 'flatbuffers', 'cryptography', 'ml_dtypes', 'networkx',"
        " 'google_crc32c', 'click', 'rich', 'elftools'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "print(sorted(m for m in set(sys.modules) - before if m.startswith('mcpc')))\n"
    )
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    heavy, ours = output.splitlines()
    assert heavy == "[]"
    assert "mcpc.loader" in ours and "compiler" not in ours
    only = subprocess.run(
        [sys.executable, "-c", "import sys, mcpc; print('numpy' in sys.modules)"], capture_output=True, text=True
    )
    assert only.stdout == "False\n"


def test_package_offers_what_it_lists() -> None:
    assert mcpc.load is load and mcpc.Session is Session
    assert mcpc.__version__.count(".") == 2
    assert {"load", "inspect", "compile"} <= set(dir(mcpc))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mcpc.nonsense  # noqa: B018
