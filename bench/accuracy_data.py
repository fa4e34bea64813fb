"""Real data that every machine has, and sound and print that are made as they are made in life. All take a source of
random numbers: the same seed gives the same data on the same installation."""

from __future__ import annotations

import ast
import re
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.models import zoo
from mcpc.models.tasks import ocr
from mcpc.models.tasks.file_types import BLOCK, features
from mcpc.models.tasks.notes import Note

Array = np.ndarray[Any, Any]

#: The checkout, or in it what changes only as the source does.
ROOT = Path(__file__).parent.parent
SOURCES = ("docs", "mcpc", "models", "passes", "runtime", "targets", "tests")

#: Sans serif, serif and italic, light and bold; None is Pillow's own.
FONTS = tuple(
    zoo.File(package, f"{package.split('==')[0].replace('-', '_')}/files/{name}.ttf", sha256)
    for package, name, sha256 in (
        ("font-lato==0.1.0", "Lato-Regular", "e82542aed8293f49fc83c4aaea566b1f6b4fc7a9ab5da11e6fb9bc0973b5324b"),
        ("font-lato==0.1.0", "Lato-BoldItalic", "e38611f4c0ff3251a58fe751991c39784d8f9be420b004891e0b9277228ec32f"),
        ("font-lato==0.1.0", "Lato-Light", "fb5343c4375c38b1c3026336d355335e6a5b8531cbc9c6506eb4b6f6d67c152f"),
        ("font-caladea==0.0.2", "Caladea-Regular", "d2f6cad33f191e65b68bd74e6d4f7708080a41b32db635866109df3090265d91"),
        ("font-caladea==0.0.2", "Caladea-Bold", "74eda4fc5ffba0d8dc4aa76d41499f5ab76168d9ed6141c6417064c6244db9b6"),
        ("font-caladea==0.0.2", "Caladea-Italic", "9c968bf60ba1e851cdfea77c71e3540c57792f77482dd241acc29d1425569c4e"),
        ("font-manrope==0.0.2", "Manrope-Medium", "0b773002799663fa57a5b80c7256e9f3e9b8b62d7d55f07640db345089af9a8b"),
    )
)


def file_features(rng: np.random.Generator, count: int) -> list[Array]:
    """What magika reads of ``count`` different files: of Python's library, of the installed packages, of this checkout.
    Types by suffix take turns, so that rare ones are there too."""
    queues = [[paths[index] for index in rng.permutation(len(paths))] for paths in _files_by_suffix()]
    found: dict[bytes, Array] = {}
    for path in _in_turns(queues):
        row = features(_ends(path))
        if path.stat().st_size >= 64:
            found.setdefault(row.tobytes(), row)
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"there are only {len(found)} files, and {count} are wanted")


@cache
def _files_by_suffix() -> Sequence[Sequence[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    installed = (Path(sysconfig.get_path(each)) for each in ("stdlib", "purelib"))
    for folder in (*installed, *(ROOT / each for each in SOURCES)):
        for path in sorted(folder.rglob("*")):
            # what lies in caches depends on what was run before; packages below Python's library are met on their own
            if path.is_file() and not {"__pycache__", "site-packages"} & set(path.relative_to(folder).parts):
                found[path.suffix.lower()].append(path)
    return [paths for _, paths in sorted(found.items())]


def _in_turns(queues: list[list[Path]]) -> Iterator[Path]:
    while queues:
        for queue in queues:
            yield queue.pop()
        queues = [queue for queue in queues if queue]


def _ends(path: Path) -> bytes:
    """The file's content as far as its features depend on it."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size <= 2 * BLOCK:
            return file.read()
        first = file.read(BLOCK)
        file.seek(size - BLOCK)
        return first + file.read()


def sentences(rng: np.random.Generator, count: int) -> list[str]:
    """Different English sentences of 6 to 30 words: what the docstrings in Python's library begin with."""
    known = _sentences()
    if len(known) < count:
        raise ValueError(f"there are only {len(known)} sentences, and {count} are wanted")
    return [known[index] for index in rng.permutation(len(known))[:count]]


@cache
def _sentences() -> Sequence[str]:
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                paragraph = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                sentence = paragraph.partition(". ")[0].removesuffix(".") + "."
                if 6 <= len(sentence.split()) <= 30 and sentence[0].isupper() and sentence.isascii():
                    found.setdefault(sentence)
    return tuple(found)


# ---- print


def texts(rng: np.random.Generator, count: int) -> list[str]:
    """Different lines of 4 to 36 characters: words out of sentences, and every fourth a number or a date."""
    words = [word for sentence in sentences(rng, 400) for word in re.findall(r"[\w.,:;()'/-]+", sentence)]
    found: dict[str, None] = {}
    while len(found) < count:
        if len(found) % 4 == 3:
            number, date = rng.integers(10**6), f"{rng.integers(1980, 2030)}-{rng.integers(1, 13):02}"
            found.setdefault([f"{number / 100:,.2f} EUR", f"No. {number}", f"{date}-{rng.integers(1, 29):02}"][
                int(rng.integers(3))
            ])  # fmt: skip
            continue
        begin, length = int(rng.integers(len(words) - 10)), int(rng.integers(8, 37))
        line = " ".join(words[begin : begin + 10])[:length].rsplit(" ", 1)[0]
        if len(line) >= 4:
            found.setdefault(line)
    return list(found)


def fonts() -> list[Path | None]:
    """All fonts, Pillow's own among them."""
    return [None, *zoo.fetch_files("ocr-rec", FONTS)]


def printed_lines(rng: np.random.Generator, wanted: list[str]) -> list[Array]:
    """A picture of each text, uint8 [height, width, 3]: fonts in turn, letters of 12 to 40 pixels, worn."""
    faces = fonts()
    return [
        worn(rng, ocr.line(text, int(rng.integers(12, 41)), faces[index % len(faces)]))
        for index, text in enumerate(wanted)
    ]


def printed_pages(
    rng: np.random.Generator, count: int, lines: int, width: int = 480, height: int = 640
) -> list[tuple[Array, list[ocr.Box]]]:
    """Worn pages with a font each and letters of 9 to 28 pixels, and the boxes of their ink."""
    faces, wanted = fonts(), texts(rng, count * lines)
    pages = []
    for index in range(count):
        pitch, size = height // lines, int(rng.integers(9, 29))
        placed = [
            (int(rng.integers(8, width // 3)), 8 + row * pitch + int(rng.integers(pitch // 4)), text[: 500 // size])
            for row, text in enumerate(wanted[index * lines : (index + 1) * lines])
        ]
        image, boxes = ocr.page(placed, width, height, size, faces[index % len(faces)])
        pages.append((worn(rng, image), boxes))
    return pages


def worn(rng: np.random.Generator, image: Array) -> Array:
    """Black on white as grey ink on grey paper, in another tint each, and with the noise of a sensor."""
    paper, ink = rng.uniform(130, 255, 3), rng.uniform(0, 80, 3)
    noise = rng.uniform(0, 30) * rng.standard_normal(image.shape)
    return np.clip(np.rint(ink + image / 255 * (paper - ink) + noise), 0, 255).astype(np.uint8)


# ---- sound


def score(rng: np.random.Generator) -> list[Note]:
    """Up to two seconds of music in two voices of two to five notes, an octave apart at least."""
    notes = []
    for lowest in (40, 64):
        onset = rng.uniform(0.05, 0.4)
        while onset < 1.6:
            length = rng.uniform(0.25, 0.7)
            notes.append(Note(int(rng.integers(lowest, lowest + 13)), onset, min(onset + length, 1.9)))
            onset += length + rng.uniform(0.02, 0.2)
    return sorted(notes, key=lambda note: (note.key, note.onset))
