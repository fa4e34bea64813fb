"""Artifact files: :func:`write_artifact` makes one of :class:`Contents`, :class:`Artifact` reads one.

The layout is docs/format.md's; the metadata are the classes that flatc makes of runtime/schema/mcp26.fbs.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import flatbuffers
import numpy as np

from mcpc._schema import CodeVariantT, MetaT, SectionHashT, ShardT
from mcpc.container import (
    ALIGNMENT,
    CHECKSUMMED,
    ENTRY_BYTES,
    HEADER_BYTES,
    Container,
    Kind,
    Section,
    crc32c,
    damaged,
    encode_prologue,
    read_container,
)
from mcpc.errors import FormatError
from mcpc.files import replacing
from mcpc.golden import Golden, decode_cases, encode_cases
from mcpc.schema_check import IDENTIFIER, check_metadata

#: Bytes of a weight shard. A shard may come in several chunks, which follow each other in the file without a gap.
Chunk = bytes | bytearray | memoryview | np.ndarray[Any, Any]

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Code:
    """A code variant. ``image`` is a flat relocation-free image, ``entry`` and ``plan`` are offsets in it; ``features``
    are the Linux names of what the processor must have. Variants stand in order of preference."""

    name: str
    isa: str
    image: bytes
    entry: int
    plan: int
    features: tuple[str, ...] = ()


@dataclass
class Contents:
    """All that goes into a file. Of ``meta`` the writer itself fills in code, shards, golden and the sections' hashes.

    A shard may be a lazy series of chunks: each is written, hashed and dropped before the next is asked for.
    """

    meta: MetaT
    code: Sequence[Code] = ()
    shards: Sequence[Chunk | Iterable[Chunk]] = ()
    golden: Sequence[Golden] = ()


def write_artifact(path: Path, contents: Contents, *, sign_key: Path | None = None) -> None:
    """Write ``contents`` to ``path``, which other processes see either as it was or complete.

    Equal contents give equal bytes. ``sign_key`` is the PEM file of an Ed25519 private key. UsageError E002 where the
    key cannot be used or the file cannot be written.
    """
    key = None
    if sign_key is not None:
        from mcpc import signature

        key = signature.load_private_key(sign_key)
    count = len(contents.code) + len(contents.shards) + bool(contents.golden) + 1 + (key is not None)
    meta = copy.copy(contents.meta)
    with replacing(Path(path)) as file:
        out = _SectionWriter(file, HEADER_BYTES + count * ENTRY_BYTES)
        meta.code = [
            CodeVariantT(
                name=code.name,
                section=len(out.sections),
                isa=code.isa,
                features=list(code.features),
                entry=code.entry,
                plan=code.plan,
                sha256=out.add(Kind.CODE, [code.image]),
            )
            for code in contents.code
        ]
        meta.shards = [
            ShardT(section=len(out.sections), sha256=out.add(Kind.SHARD, _chunks(shard))) for shard in contents.shards
        ]
        meta.golden, meta.goldenSection = [], -1
        if contents.golden:
            meta.golden, tensors = encode_cases(contents.golden)
            meta.goldenSection = len(out.sections)
            out.add(Kind.GOLDEN, tensors)
        meta.sections = [SectionHashT(section=index, sha256=list(digest)) for index, digest in enumerate(out.digests)]
        metadata = encode_metadata(meta)
        out.add(Kind.META, [metadata])
        if key is not None:
            out.reserve(Kind.SIGNATURE, signature.SIGNATURE_BYTES)
        prologue = encode_prologue(out.sections, out.end)
        if key is not None:
            out.fill(signature.sign(key, prologue, metadata))
        file.seek(0)
        file.write(prologue)


class Artifact:
    """An artifact opened for reading from Python: structure, metadata, golden data, hashes.

    ``container`` holds versions and section table, ``meta`` the metadata. Header, section table, metadata and code are
    checked by :meth:`open`, the rest by :meth:`verify`. Use as a context manager, or :meth:`close` it.
    """

    def __init__(self, path: Path, file: BinaryIO, container: Container) -> None:
        self.path = path
        self.container = container
        self._file = file
        for index, section in enumerate(container.sections):
            if section.kind in CHECKSUMMED and crc32c(self.section(index)) != section.crc:
                raise damaged(f"the checksum of section {index} ({Kind(section.kind).name}) is wrong")
        self.meta = decode_metadata(self.section(self._meta_index))
        _check_references(self.meta, container)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """FormatError E500 for what is no artifact or cannot be read, E501 for a damaged one, E502 for a version that
        this release does not read."""
        try:
            file = Path(path).open("rb")  # noqa: SIM115  the artifact closes it
        except OSError as error:
            raise FormatError("E500", f"{path} cannot be read: {error.strerror}") from None
        try:
            return cls(Path(path), file, read_container(file))
        except OSError as error:
            file.close()
            raise FormatError("E500", f"{path} cannot be read: {error.strerror}") from None
        except BaseException:
            file.close()
            raise

    def section(self, index: int) -> bytes:
        """A section's bytes, as they are in the file."""
        return b"".join(self._read(self.container.sections[index]))

    def golden(self) -> list[Golden]:
        """The cases of the self-test; FormatError E501 where their description does not fit."""
        if not self.meta.golden:
            return []
        return decode_cases(self.meta, self.section(self.meta.goldenSection))

    def verify(self) -> None:
        """Read the whole file and raise FormatError E501 where a section's SHA-256 is not the metadata's."""
        for entry in self.meta.sections or []:
            digest = hashlib.sha256()
            for block in self._read(self.container.sections[entry.section]):
                digest.update(block)
            if digest.digest() != bytes(entry.sha256):
                raise damaged(f"the SHA-256 of section {entry.section} is wrong")

    def verify_signature(self, public_key: Path) -> None:
        """Raise FormatError E504 unless the owner of ``public_key``, a PEM file, signed the artifact.

        With :meth:`verify`, which compares the rest with the signed hashes, this vouches for the whole file.
        """
        from mcpc import signature

        key = signature.load_public_key(public_key)
        payloads = [self.section(index) for index in self.container.of_kind(Kind.SIGNATURE)]
        if len(payloads) != 1:
            raise FormatError(
                "E504", "the artifact is not signed" if not payloads else "the artifact has two signatures"
            )
        signature.check(key, payloads[0], self.container.prologue, self.section(self._meta_index))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _meta_index(self) -> int:
        return self.container.of_kind(Kind.META)[0]

    def _read(self, section: Section) -> Iterator[bytes]:
        """The section in blocks. A file that shrank meanwhile is damaged."""
        self._file.seek(section.offset)
        left = section.size
        while left:
            block = self._file.read(min(left, _READ_BYTES))
            if not block:
                raise damaged("the file was cut while it was read")
            left -= len(block)
            yield block


def _check_references(meta: MetaT, container: Container) -> None:
    """Indices and hashes that readers rely on."""

    def expect(sound: bool, what: str) -> None:
        if not sound:
            raise damaged(f"metadata: {what}")

    def kind_of(index: int) -> int:
        return container.sections[index].kind if index < len(container.sections) else 0

    for code in meta.code or []:
        expect(kind_of(code.section) == Kind.CODE, f"code variant {code.name} has no CODE section")
        size = container.sections[code.section].size
        expect(code.entry < size and code.plan < size, f"an entry of code variant {code.name} lies outside its image")
    for index, shard in enumerate(meta.shards or []):
        expect(kind_of(shard.section) == Kind.SHARD, f"shard {index} has no SHARD section")
    for step in meta.steps or []:
        expect(all(shard < len(meta.shards or []) for shard in step.shards or []), f"step {step.name} names no shard")
    for entry in [*(meta.code or []), *(meta.shards or []), *(meta.sections or [])]:
        expect(len(entry.sha256) == hashlib.sha256().digest_size, "a hash has a wrong length")
        expect(kind_of(entry.section) != 0, "a hash is of no section")
    for default in meta.defaults or []:
        expect(default.input < len(meta.inputs), "a default value is of no input")
        expect(default.shard < len(meta.shards or []), "a default value lies in no shard")
    if meta.golden:
        expect(meta.goldenSection >= 0 and kind_of(meta.goldenSection) == Kind.GOLDEN, "there is no GOLDEN section")
    for tensor in [*meta.inputs, *meta.outputs]:
        texts = tensor.dimTexts or []
        expect(len(texts) in (0, len(tensor.dims)), f"tensor {tensor.name} has {len(texts)} texts for its dimensions")
        symbols = [dim.symbol for dim in tensor.dims]
        expect(all(symbol < len(meta.symbols or []) for symbol in symbols), f"tensor {tensor.name} has no such symbol")


def encode_metadata(meta: MetaT) -> bytes:
    """The META section's bytes."""
    builder = flatbuffers.Builder(4096)
    builder.Finish(meta.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def decode_metadata(data: bytes) -> MetaT:
    """The metadata in META's bytes; vectors are lists, texts are str. FormatError E501 for unsound bytes."""
    check_metadata(data)
    meta: MetaT = MetaT.InitFromPackedBuf(data)
    try:
        _plain(meta)
    except UnicodeDecodeError:
        raise damaged("a text in the metadata is not UTF-8") from None
    return meta


def _plain(value: Any) -> Any:
    """flatc's readers leave texts as bytes and number vectors as views of the buffer: turn them into str and lists."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if hasattr(value, "__dict__"):
        for name, member in vars(value).items():
            setattr(value, name, _plain(member))
    return value


def _chunks(shard: Chunk | Iterable[Chunk]) -> Iterable[Chunk]:
    return [shard] if isinstance(shard, (bytes, bytearray, memoryview, np.ndarray)) else shard


class _SectionWriter:
    """Writes sections one behind the other. ``end`` is the file's length so far."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self.file = file
        self.end = end
        self.sections: list[Section] = []
        self.digests: list[bytes] = []

    def add(self, kind: Kind, chunks: Iterable[Chunk]) -> list[int]:
        """Write a section and return its SHA-256."""
        start = self.end + -self.end % ALIGNMENT[kind]
        self.file.seek(start)
        digest = hashlib.sha256()
        size = crc = 0
        for chunk in chunks:
            data = _memory(chunk)
            self.file.write(data)
            digest.update(data)
            if kind in CHECKSUMMED:
                crc = crc32c(bytes(data), crc)
            size += len(data)
        self.sections.append(Section(kind, start, size, crc))
        self.digests.append(digest.digest())
        self.end = start + size
        return list(digest.digest())

    def reserve(self, kind: Kind, size: int) -> None:
        start = self.end + -self.end % ALIGNMENT[kind]
        self.sections.append(Section(kind, start, size))
        self.end = start + size

    def fill(self, data: bytes) -> None:
        """Write the section that was reserved last."""
        self.file.seek(self.sections[-1].offset)
        self.file.write(data)


def _memory(chunk: Chunk) -> memoryview:
    if isinstance(chunk, np.ndarray):  # by way of uint8, since not all element types export a buffer
        return np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
    return memoryview(chunk).cast("B")
