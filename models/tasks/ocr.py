"""Text in images with ocr-det and ocr-rec (PaddleOCR's PP-OCRv4, Li et al., 2022, arXiv:2206.03001).

Images are uint8 [height, width, 3]. Sizes, thresholds and padding are those of the rapidocr package, which carries the
two models. Needs Pillow and SciPy, which are in the extra `dev`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: The height of a line as ocr-rec reads it, and the width that a batch has at least.
LINE_HEIGHT, LINE_WIDTH = 48, 320

#: ocr-det halves the image five times.
DETECTION_MULTIPLE = 32

#: A pixel above THRESHOLD is text; a box counts if its mean is above BOX_THRESHOLD; it grows by area / perimeter times
#: UNCLIP, since the network marks the core of the text (Liao et al., 2020, arXiv:1911.08947).
THRESHOLD, BOX_THRESHOLD, UNCLIP = 0.3, 0.5, 1.6


@dataclass(frozen=True)
class Box:
    """Pixels ``left <= x < right`` and ``top <= y < bottom``."""

    left: int
    top: int
    right: int
    bottom: int

    def covers(self, other: Box) -> float:
        """The share of ``other`` that lies inside this one."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0) * max(height, 0) / ((other.right - other.left) * (other.bottom - other.top))


# ---- pictures of text


def line(text: str, size: int = 36, font: Path | None = None) -> Array:
    """A line of black text on white, with a margin; the font of this ``size`` is Pillow's own where none is given."""
    left, top, right, bottom = _font(size, font).getbbox(text)
    margin = size // 4
    image, _ = page([(margin - int(left), margin - int(top), text)], int(right - left) + 2 * margin,
                    int(bottom - top) + 2 * margin, size, font)  # fmt: skip
    return image


def page(
    lines: Sequence[tuple[int, int, str]], width: int, height: int, size: int = 28, font: Path | None = None
) -> tuple[Array, list[Box]]:
    """A white page with lines of black text, each given by x, y and its words, and the boxes that its ink fills."""
    from PIL import Image, ImageDraw

    drawn_with = _font(size, font)
    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    boxes = []
    for x, y, text in lines:
        draw.text((x, y), text, fill="black", font=drawn_with)
        left, top, right, bottom = draw.textbbox((x, y), text, font=drawn_with)
        boxes.append(Box(math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)))
    return np.asarray(image), boxes


def _font(size: int, file: Path | None) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size) if file is None else ImageFont.truetype(file, size)


# ---- ocr-det


def detection_input(image: Array) -> Array:
    """The image as float32 [1, 3, height, width] in -1..1, resized to the nearest multiple of 32 pixels."""
    height, width = (max(round(side / DETECTION_MULTIPLE), 1) * DETECTION_MULTIPLE for side in image.shape[:2])
    return _normalised(_resized(image, width, height))[None]


def text_boxes(probabilities: Array, width: int, height: int) -> list[Box]:
    """Boxes of the text on an image of this size, from ocr-det's map [1, 1, h, w]. Turned text gets an upright box."""
    from scipy import ndimage

    grid = probabilities[0, 0]
    labels, _ = ndimage.label(grid > THRESHOLD, np.ones((3, 3)))
    boxes = []
    for rows, columns in ndimage.find_objects(labels):
        if grid[rows, columns].mean() < BOX_THRESHOLD:
            continue
        tall, wide = rows.stop - rows.start, columns.stop - columns.start
        grown = UNCLIP * tall * wide / (2 * (tall + wide))
        x, y = width / grid.shape[1], height / grid.shape[0]
        boxes.append(
            Box(
                max(math.floor((columns.start - grown) * x), 0),
                max(math.floor((rows.start - grown) * y), 0),
                min(math.ceil((columns.stop + grown) * x), width),
                min(math.ceil((rows.stop + grown) * y), height),
            )
        )
    return boxes


# ---- ocr-rec


def recognition_input(lines: Sequence[Array], width: int = LINE_WIDTH) -> Array:
    """Images of one line each as float32 [lines, 3, 48, w] in -1..1; w is that of the widest, ``width`` at least, and
    zeros fill the others up."""
    wide = [math.ceil(LINE_HEIGHT * image.shape[1] / image.shape[0]) for image in lines]
    result = np.zeros((len(lines), 3, LINE_HEIGHT, max(width, *wide)), np.float32)
    for index, (image, columns) in enumerate(zip(lines, wide, strict=True)):
        result[index, :, :, :columns] = _normalised(_resized(image, columns, LINE_HEIGHT))
    return result


def characters(model: Path | str) -> list[str]:
    """What each class of ocr-rec stands for, as its file's metadata says: first the blank, last the space."""
    import onnx

    [text] = [entry.value for entry in onnx.load(model).metadata_props if entry.key == "character"]
    return ["", *text.splitlines(), " "]


def read(probabilities: Array, classes: Sequence[str]) -> list[str]:
    """The likeliest text of each line from ocr-rec's output [lines, steps, classes].

    Best-path decoding of Graves et al. (2006): the best class a step, repetitions taken once, blanks left out.
    """
    best = probabilities.argmax(2)
    kept = np.ones(best.shape, bool)
    kept[:, 1:] = best[:, 1:] != best[:, :-1]
    return ["".join(classes[index] for index in row[keep]) for row, keep in zip(best, kept, strict=True)]


# ---- pixels


def _resized(image: Array, width: int, height: int) -> Array:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))


def _normalised(image: Array) -> Array:
    """Pixels in -1..1, the channels first, in the order blue, green, red."""
    scaled = (image.astype(np.float32) / 255 - 0.5) / 0.5
    return np.ascontiguousarray(scaled[:, :, ::-1].transpose(2, 0, 1))
