"""Lists of files, a line a sample (dataset.txt)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.errors import CalibrationError, Problems
from mcpc.ir import DType, Value

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Line:
    """A file for each input."""

    place: str
    files: tuple[Path, ...]
    inputs: Sequence[Value]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def read(self) -> dict[str, Array]:
        """Raises CalibrationError E400."""
        return {value.name: self._array(file, value) for file, value in zip(self.files, self.inputs, strict=True)}

    def _array(self, file: Path, value: Value) -> Array:
        try:
            array = np.load(file) if file.suffix == ".npy" else _image(file, value, self.mean, self.std)
        except CalibrationError:
            raise
        except Exception as error:  # Pillow's exceptions share no base class
            raise CalibrationError("E400", f"{self.place}: {file} cannot be read: {error}") from None
        return array.reshape(1, *array.shape) if array.ndim == len(value.type.dims) - 1 else array


def read_list(path: Path, inputs: Sequence[Value]) -> list[Line]:
    """The lines of ``path``: for every input, in the model's order, the path of a .npy or image file, relative to the
    list and separated by blanks. Other lines begin with ``#``; two of them mean something:

        # mean: 123.7 116.3 103.5      what is taken off the pixels' 0 ... 255 (default 0),
        # std: 58.4 57.1 57.4          and what divides them then (default 1); one number, or one a channel

    Images are resized to the input (bilinear), as RGB or grey, as float numbers or as uint8 without mean and std.
    Raises CalibrationError E400 for all lines together.
    """
    settings: dict[str, tuple[float, ...]] = {"mean": (0.0,), "std": (1.0,)}
    lines, problems = [], Problems()
    try:
        texts = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError("E400", f"{path} cannot be read: {error}") from None
    for number, text in enumerate(texts, 1):
        place = f"{path.name}:{number}"
        setting = re.fullmatch(r"\s*#\s*(mean|std)\s*:(.*)", text)
        with problems.collect():
            if setting is not None:
                settings[setting[1]] = _numbers(setting[1], setting[2], place)
            elif text.strip() and not text.lstrip().startswith("#"):
                files = tuple(path.parent / name for name in text.split())
                lines.append(Line(place, _present(files, inputs, place), inputs, settings["mean"], settings["std"]))
    problems.raise_if_any()
    if not lines:
        raise CalibrationError("E400", f"there is no sample in {path}")
    return lines


def _numbers(name: str, text: str, place: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(each) for each in text.replace(",", " ").split())
    except ValueError:
        numbers = ()
    if not numbers:
        raise CalibrationError("E400", f"{place}: {text.strip()!r} is no list of numbers")
    if name == "std" and 0 in numbers:
        raise CalibrationError("E400", f"{place}: a std of 0 divides nothing")
    return numbers


def _present(files: tuple[Path, ...], inputs: Sequence[Value], place: str) -> tuple[Path, ...]:
    if len(files) != len(inputs):
        names = ", ".join(value.name for value in inputs)
        raise CalibrationError("E400", f"{place}: {len(files)} files for the {len(inputs)} inputs {names}")
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise CalibrationError("E400", f"{place}: there is no {missing[0]}")
    return files


def _image(file: Path, value: Value, mean: tuple[float, ...], std: tuple[float, ...]) -> Array:
    """An image as [1, C, H, W], or [1, H, W, C] where that is how the input's channels lie."""
    try:
        from PIL import Image
    except ImportError:
        raise CalibrationError("E400", f"reading {file.name} takes Pillow", hint="pip install 'mcpc[images]'") from None
    dims = value.type.dims
    channels_last = len(dims) == 4 and dims[3] in (1, 3) and dims[1] not in (1, 3)
    channels, *size = (dims[3], dims[1], dims[2]) if channels_last else (*dims[1:],)
    if len(dims) != 4 or channels not in (1, 3):
        raise CalibrationError("E400", f"the input {value.name!r} is no image of 1 or 3 channels")
    with Image.open(file) as opened:
        image = opened.convert("RGB" if channels == 3 else "L")
        if all(isinstance(each, int) for each in size):
            image = image.resize((int(size[1]), int(size[0])), Image.Resampling.BILINEAR)
        pixels = np.asarray(image).reshape(image.height, image.width, channels)
    if value.dtype is not DType.uint8:
        if any(len(each) not in (1, channels) for each in (mean, std)):
            raise CalibrationError("E400", f"mean {mean} and std {std} are not for {channels} channels")
        pixels = (pixels.astype(np.float32) - np.array(mean, np.float32)) / np.array(std, np.float32)
    return (pixels if channels_last else pixels.transpose(2, 0, 1))[None]
