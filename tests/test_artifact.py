"""Artifact files: what is written comes back, the same bytes every time, and damage is found."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpc import _schema, container
from mcpc.artifact import Artifact, Code, Contents, decode_metadata, encode_metadata, write_artifact
from mcpc.container import Kind
from mcpc.errors import FormatError, UsageError
from mcpc.golden import Golden

IMAGE = bytes(range(256)) * 20


def tensor(name: str, *sizes: int | str) -> _schema.TensorT:
    dims = [_schema.DimRefT(-1, 0) if isinstance(size, str) else _schema.DimRefT(size, -1) for size in sizes]
    return _schema.TensorT(name=name, dtype=1, dims=dims, dimTexts=[str(size) for size in sizes], maxBytes=4096)


def contents() -> Contents:
    rng = np.random.default_rng(1)
    meta = _schema.MetaT(
        modelName="häuschen",
        target="rock5b",
        abiVersion=1,
        inputs=[tensor("x", "N", 4)],
        outputs=[tensor("y", "N", 2)],
        symbols=[_schema.SymbolT("N", 1, 64)],
        steps=[_schema.StepT(name="/fc", op="Gemm+Relu", kernel="gemm", shards=[0, 1], flops=16, shape="Nx2")],
        arenaBytes=512,
        decisions=[_schema.DecisionT("fuse", "/fc", "fuse", "cheaper", [_schema.NumberT("saved_us", 1.5)])],
        provenance=[_schema.KeyValueT("mcpc", "0.1.0")],
    )
    return Contents(
        meta,
        code=[Code("dotprod", "aarch64", IMAGE, 64, 128, ("asimddp",)), Code("base", "aarch64", IMAGE[::-1], 0, 4)],
        shards=[rng.random((100, 70), dtype=np.float32), (bytes([i]) * i for i in range(1, 30))],
        golden=[Golden([rng.random((3, 4), dtype=np.float32)], [rng.random((3, 2), dtype=np.float32)], 1e-2, 1e-4)],
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_artifact(tmp_path / "net.mcp26bin", contents())
    return tmp_path / "net.mcp26bin"


def keys(folder: Path) -> tuple[Path, Path]:
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "public.pem").write_bytes(public)
    return folder / "key.pem", folder / "public.pem"


def refusal(path: Path) -> str:
    """The code of the error that opening ``path`` ends in."""
    with pytest.raises(FormatError) as caught, Artifact.open(path):
        pass
    return caught.value.code


def test_what_is_written_comes_back(path: Path) -> None:
    expected = contents()
    with Artifact.open(path) as artifact:
        meta = artifact.meta
        assert (meta.modelName, meta.target, meta.abiVersion, meta.arenaBytes) == ("häuschen", "rock5b", 1, 512)
        assert [(d.value, d.symbol) for d in meta.inputs[0].dims] == [(-1, 0), (4, -1)]
        assert meta.inputs[0].dimTexts == ["N", "4"] and (meta.symbols[0].min, meta.symbols[0].max) == (1, 64)
        assert meta.steps[0].shards == [0, 1] and meta.decisions[0].numbers[0].value == 1.5
        assert [(c.name, c.features, c.entry, c.plan) for c in meta.code] == [
            ("dotprod", ["asimddp"], 64, 128),
            ("base", [], 0, 4),
        ]
        assert [artifact.section(code.section) for code in meta.code] == [IMAGE, IMAGE[::-1]]
        weights = expected.shards[0]
        assert isinstance(weights, np.ndarray)
        assert artifact.section(meta.shards[0].section) == weights.tobytes()
        assert artifact.section(meta.shards[1].section) == b"".join(bytes([i]) * i for i in range(1, 30))
        (golden,), (want,) = artifact.golden(), expected.golden
        np.testing.assert_array_equal(golden.inputs[0], want.inputs[0])
        np.testing.assert_array_equal(golden.outputs[0], want.outputs[0])
        assert golden.rtol == pytest.approx(1e-2) and golden.atol == pytest.approx(1e-4)
        artifact.verify()


def test_layout_is_the_documented_one(path: Path) -> None:
    data = path.read_bytes()
    assert data[:16] == b"MCP26BIN" + bytes([1, 0, 1, 0, 1, 0, 1, 0])
    assert int.from_bytes(data[16:24], "little") == len(data)
    offset, count = int.from_bytes(data[24:32], "little"), int.from_bytes(data[32:36], "little")
    table = [data[offset + 32 * i : offset + 32 * (i + 1)] for i in range(count)]
    for entry in table:
        kind, start = int.from_bytes(entry[:4], "little"), int.from_bytes(entry[8:16], "little")
        assert start % {1: 8, 2: 65536, 3: 65536, 4: 64}[kind] == 0
        assert entry[24:] == bytes(8)
    assert sorted(entry[0] for entry in table) == [1, 2, 2, 3, 3, 4]


def test_same_contents_give_same_bytes(path: Path, tmp_path: Path) -> None:
    write_artifact(tmp_path / "again.mcp26bin", contents(), sign_key=None)
    assert (tmp_path / "again.mcp26bin").read_bytes() == path.read_bytes()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["again.mcp26bin", "net.mcp26bin"]


def test_failed_write_leaves_the_old_file(path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"weights"
        raise RuntimeError("out of weights")

    before = path.read_bytes()
    with pytest.raises(RuntimeError):
        write_artifact(path, Contents(contents().meta, shards=[broken()]))
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == 1
    with pytest.raises(UsageError, match="cannot be written"):
        write_artifact(path / "below a file", contents())
    os.mkfifo(path.parent / "device")
    with pytest.raises(UsageError, match="no regular file"):
        write_artifact(path.parent / "device", contents())
    assert (path.parent / "device").is_fifo()


def test_every_truncation_is_refused(path: Path) -> None:
    data = path.read_bytes()
    lengths = [*range(80), *range(80, len(data), 4099), *range(len(data) - 40, len(data))]
    for length in lengths:
        path.write_bytes(data[:length])
        assert refusal(path) == ("E500" if length == 0 else "E501"), length
    path.write_bytes(data + b"\0")
    assert refusal(path) == "E501"


def test_corruption_of_header_table_metadata_and_code_is_refused(path: Path) -> None:
    data = path.read_bytes()
    with Artifact.open(path) as artifact:
        sections = artifact.container.sections
    guarded = list(range(container.HEADER_BYTES + len(sections) * container.ENTRY_BYTES))
    for section in sections:
        if section.kind in (Kind.META, Kind.CODE):
            guarded += range(section.offset, section.offset + section.size)
    rng = random.Random(26)
    with path.open("r+b", buffering=0) as file:
        for _ in range(2000):
            positions = rng.sample(guarded, rng.choice([1, 1, 2, 8]))
            for position in positions:
                file.seek(position)
                file.write(bytes([data[position] ^ rng.randrange(1, 256)]))
            assert refusal(path) in ("E500", "E501")
            for position in positions:
                file.seek(position)
                file.write(data[position : position + 1])
    with Artifact.open(path) as artifact:
        artifact.verify()


def test_corruption_of_weights_and_golden_data_is_found_by_verify(path: Path) -> None:
    data = path.read_bytes()
    with Artifact.open(path) as artifact:
        sections = artifact.container.sections
    for section in sections:
        if section.kind in (Kind.SHARD, Kind.GOLDEN):
            damaged = bytearray(data)
            damaged[section.offset + section.size // 2] ^= 16
            path.write_bytes(damaged)
            with Artifact.open(path) as artifact, pytest.raises(FormatError, match="SHA-256") as caught:
                artifact.verify()
            assert caught.value.code == "E501"


def test_other_versions_and_other_files(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "FORMAT_VERSION", (2, 0))
    write_artifact(path, contents())
    monkeypatch.undo()
    with pytest.raises(FormatError, match=r"version 2\.0.*reads version 1") as caught:
        Artifact.open(path)
    assert caught.value.code == "E502" and caught.value.hint
    monkeypatch.setattr(container, "FORMAT_VERSION", (1, 7))
    write_artifact(path, contents())
    monkeypatch.undo()
    with Artifact.open(path) as artifact:
        assert artifact.container.format_version == (1, 7)
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07" + bytes(200))
    assert refusal(tmp_path / "model.onnx") == "E500"
    assert refusal(tmp_path / "missing") == "E500"
    assert refusal(tmp_path) == "E500"


def reseal(path: Path, metadata: bytes) -> None:
    """Replace META, with all checksums right: what an attacker can do."""
    with Artifact.open(path) as artifact:
        sections = list(artifact.container.sections)
    index = next(i for i, section in enumerate(sections) if section.kind == Kind.META)
    start = sections[index].offset
    sections[index] = container.Section(Kind.META, start, len(metadata), container.crc32c(metadata))
    body = path.read_bytes()[:start] + metadata
    prologue = container.encode_prologue(sections, len(body))
    path.write_bytes(prologue + body[len(prologue) :])


def test_hostile_metadata_with_right_checksums_are_refused_or_read(path: Path) -> None:
    """No crash, no hang, no raw exception, whatever META holds."""
    with Artifact.open(path) as artifact:
        original = artifact.section(artifact.container.of_kind(Kind.META)[0])
    rng = random.Random(7)
    refused = 0
    for _ in range(2000):
        metadata = bytearray(original)
        for _ in range(rng.choice([1, 2, 5])):
            position = rng.randrange(len(metadata))
            metadata[position : position + 4] = rng.choice(
                [rng.randbytes(4), b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\x04\0\0\0"]
            )[: len(metadata) - position]
        try:
            decode_metadata(bytes(metadata))
        except FormatError as error:
            assert error.code == "E501"
            refused += 1
    assert refused > 500
    reseal(path, original[: len(original) // 2])
    assert refusal(path) == "E501"


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_arbitrary_metadata_never_raise_anything_else(noise: bytes) -> None:
    with pytest.raises(FormatError):
        decode_metadata(noise[:4] + b"MC26" + noise[4:])


def test_shared_parts_cannot_blow_up() -> None:
    """A vector of 50,000 references to one vector of 50,000 references to one table."""
    builder = flatbuffers.Builder(1 << 20)
    text = builder.CreateString("name")

    def many(reference: int) -> int:
        builder.StartVector(4, 50_000, 4)
        for _ in range(50_000):
            builder.PrependUOffsetTRelative(reference)
        return int(builder.EndVector())

    _schema.NumberStart(builder)
    _schema.NumberAddName(builder, text)
    numbers = many(_schema.NumberEnd(builder))
    _schema.DecisionStart(builder)
    for add in _schema.DecisionAddPass, _schema.DecisionAddSubject, _schema.DecisionAddAction:
        add(builder, text)
    _schema.DecisionAddNumbers(builder, numbers)
    decisions = many(_schema.DecisionEnd(builder))
    builder.StartVector(4, 0, 4)
    none = builder.EndVector()
    _schema.MetaStart(builder)
    for add, value in (
        (_schema.MetaAddModelName, text),
        (_schema.MetaAddTarget, text),
        (_schema.MetaAddInputs, none),
        (_schema.MetaAddOutputs, none),
        (_schema.MetaAddDecisions, decisions),
    ):
        add(builder, value)
    builder.Finish(_schema.MetaEnd(builder), file_identifier=b"MC26")
    with pytest.raises(FormatError, match="overlap"):
        decode_metadata(bytes(builder.Output()))


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: setattr(meta.code[0], "section", 3),
        lambda meta: setattr(meta.code[0], "entry", len(IMAGE)),
        lambda meta: setattr(meta.shards[0], "section", 99),
        lambda meta: setattr(meta.shards[0], "sha256", [1, 2, 3]),
        lambda meta: setattr(meta.steps[0], "shards", [2]),
        lambda meta: setattr(meta, "goldenSection", 0),
        lambda meta: setattr(meta.sections[0], "section", 4000),
        lambda meta: setattr(meta.inputs[0], "dimTexts", ["N"]),
        lambda meta: setattr(meta.inputs[0].dims[0], "symbol", 5),
    ],
)  # fmt: skip
def test_references_to_nowhere_are_refused(path: Path, change: object) -> None:
    assert callable(change)
    with Artifact.open(path) as artifact:
        meta = artifact.meta
    change(meta)
    reseal(path, encode_metadata(meta))
    assert refusal(path) == "E501"


@pytest.mark.parametrize("field, value", [("offset", 1 << 40), ("bytes", 3), ("shape", [-1, -12]), ("index", 9)])
def test_golden_data_outside_their_section_are_refused(path: Path, field: str, value: object) -> None:
    with Artifact.open(path) as artifact:
        meta = artifact.meta
    setattr(meta.golden[0].inputs[0], field, value)
    reseal(path, encode_metadata(meta))
    with Artifact.open(path) as artifact, pytest.raises(FormatError) as caught:
        artifact.golden()
    assert caught.value.code == "E501"


def test_golden_cases_that_lack_a_tensor_are_refused(path: Path) -> None:
    with Artifact.open(path) as artifact:
        meta = artifact.meta
    meta.golden[0].inputs = []
    reseal(path, encode_metadata(meta))
    with Artifact.open(path) as artifact, pytest.raises(FormatError, match="every tensor once"):
        artifact.golden()


def test_signature(path: Path, tmp_path: Path) -> None:
    private, public = keys(tmp_path)
    with Artifact.open(path) as artifact, pytest.raises(FormatError, match="not signed") as caught:
        artifact.verify_signature(public)
    assert caught.value.code == "E504"

    write_artifact(path, contents(), sign_key=private)
    first = path.read_bytes()
    write_artifact(path, contents(), sign_key=private)
    assert path.read_bytes() == first
    with Artifact.open(path) as artifact:
        artifact.verify_signature(public)
        artifact.verify()
        meta, prologue = artifact.meta, artifact.container.prologue
    payload = first[-104:]
    signed = prologue + encode_metadata(meta)
    raw = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()
    assert payload[:8] == bytes([1, 0, 0, 0, 0, 0, 0, 0]) and payload[8:40] == raw.public_bytes_raw()
    raw.verify(payload[40:], signed)

    damaged = bytearray(first)
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with Artifact.open(path) as artifact, pytest.raises(FormatError, match="changed after signing"):
        artifact.verify_signature(public)

    other = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    public.write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    path.write_bytes(first)
    with Artifact.open(path) as artifact, pytest.raises(FormatError, match="another key"):
        artifact.verify_signature(public)


def test_unusable_keys_are_refused(path: Path, tmp_path: Path) -> None:
    private, _ = keys(tmp_path)
    (tmp_path / "text.pem").write_text("no key")
    elliptic = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "ec.pem").write_bytes(elliptic)
    for name in "text.pem", "ec.pem", "public.pem", "missing.pem":
        with pytest.raises(UsageError, match="private key") as caught:
            write_artifact(path, contents(), sign_key=tmp_path / name)
        assert caught.value.code == "E002"
    with Artifact.open(path) as artifact, pytest.raises(UsageError, match="public key") as caught:
        artifact.verify_signature(private)
    assert "-pubout" in caught.value.hint


def test_generated_schema_files_are_current() -> None:
    root = Path(__file__).resolve().parent.parent
    script = root / "runtime" / "schema" / "generate_python.py"
    if not script.exists():
        pytest.skip("the installed package does not carry the generator")
    code = f"import runpy; files = runpy.run_path({str(script)!r})['generate'](); import json; print(json.dumps(files))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    for name, text in json.loads(output).items():
        assert (root / "mcpc" / name).read_text(encoding="utf-8") == text, f"run {script.relative_to(root)}"
