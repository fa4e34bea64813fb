"""Samples from files, folders, lists, readers and arrays; and every way in which they can be wrong."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mcpc.calib.samples import open_samples
from mcpc.errors import CalibrationError, ErrorGroup
from mcpc.ir import DType, TensorType, Value, symbol

Array = np.ndarray[Any, Any]


def value(name: str, *dims: int | str, dtype: DType = DType.float32) -> Value:
    return Value(name, TensorType(dtype, tuple(symbol(each) if isinstance(each, str) else each for each in dims)))


X, IDS = value("x", 1, 3, 4), value("ids", "batch", 5, dtype=DType.int64)
DATA = np.arange(6 * 12, dtype=np.float32).reshape(6, 3, 4)


def test_npz_is_cut_along_the_first_axis(tmp_path: Path) -> None:
    ids = np.arange(30).reshape(6, 5)
    np.savez(tmp_path / "data.npz", x=DATA, ids=ids)
    samples = open_samples(tmp_path / "data.npz", [X, IDS])
    assert samples.count == 6
    for _ in range(2):  # it can be read again
        for index, feeds in enumerate(samples.each()):
            assert np.array_equal(feeds["x"], DATA[index : index + 1])
            assert np.array_equal(feeds["ids"], ids[index : index + 1])
        assert index == 5


def test_an_axis_more_counts_samples_and_one_sample_goes_with_all(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "data.npz", x=DATA[:, None], ids=np.zeros((1, 5), np.int64))
    feeds = list(open_samples(str(tmp_path / "data.npz"), [X, IDS]).each())
    assert len(feeds) == 6
    assert all(np.array_equal(each["x"], DATA[[index]]) for index, each in enumerate(feeds))
    assert all(not each["ids"].any() for each in feeds)


def test_fortran_order_is_read_as_it_is_meant(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.asfortranarray(DATA))
    feeds = list(open_samples(tmp_path / "x.npy", [X]).each())
    assert np.array_equal(np.concatenate([each["x"] for each in feeds]), DATA)


def test_folders_are_read_in_the_order_of_names(tmp_path: Path) -> None:
    for index in (1, 0):
        np.save(tmp_path / f"{index}.npy", DATA[index : index + 1])
    (tmp_path / "notes.txt").write_text("no data")
    feeds = list(open_samples(tmp_path, [X]).each())
    assert np.array_equal(np.concatenate([each["x"] for each in feeds]), DATA[:2])


def test_other_numbers_become_the_inputs_type(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", (DATA % 7).astype(np.uint8))
    (first, *_) = open_samples(tmp_path / "x.npy", [X]).each()
    assert first["x"].dtype == np.float32


def test_scalars_stay_scalars() -> None:
    scalar = Value("s", TensorType(DType.float32, ()))
    (feeds,) = open_samples([{"s": np.array(3.0)}], [scalar]).each()
    assert feeds["s"].shape == () and feeds["s"].dtype == np.float32


class Reader:
    def __init__(self, count: int) -> None:
        self.left = count

    def get_next(self) -> Mapping[str, Array] | None:
        self.left -= 1
        return {"x": DATA[:1]} if self.left >= 0 else None


def test_a_reader_as_for_onnxruntime() -> None:
    samples = open_samples(Reader(3), [X])
    assert samples.count is None and len(list(samples.each())) == 3


def test_images_are_resized_and_normalised(tmp_path: Path) -> None:
    pixels = np.zeros((8, 10, 3), np.uint8)
    pixels[..., 0], pixels[..., 2] = 200, 50
    Image.fromarray(pixels).save(tmp_path / "a b.png".replace(" ", "_"))
    (tmp_path / "dataset.txt").write_text("# mean: 100, 0, 50\n# std: 50 1 2\n# a comment\n\na_b.png\n")
    for dims, axis in (((1, 3, 4, 5), 1), ((1, 4, 5, 3), 3)):
        (feeds,) = open_samples(tmp_path / "dataset.txt", [value("x", *dims)]).each()
        assert feeds["x"].shape == dims
        assert np.array_equal(np.unique(np.moveaxis(feeds["x"], axis, -1).reshape(-1, 3), axis=0), [[2.0, 0.0, 0.0]])
    (feeds,) = open_samples(tmp_path / "dataset.txt", [value("x", 1, 3, "h", "w", dtype=DType.uint8)]).each()
    assert feeds["x"].dtype == np.uint8 and feeds["x"].shape == (1, 3, 8, 10) and feeds["x"][0, 0, 0, 0] == 200


def test_lists_of_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA[0])
    np.save(tmp_path / "ids.npy", np.zeros((1, 5), np.int64))
    (tmp_path / "dataset.txt").write_text("x.npy ids.npy\nx.npy ids.npy")
    samples = open_samples(tmp_path / "dataset.txt", [X, IDS])
    assert samples.count == 2 and all(each["x"].shape == (1, 3, 4) for each in samples.each())


def save(**arrays: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        np.savez(folder / "data.npz", **arrays)
        return folder / "data.npz"

    return make


def write(name: str, contents: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(contents)
        return folder / name

    return make


def truncated(folder: Path) -> Path:
    np.save(folder / "x.npy", DATA)
    data = (folder / "x.npy").read_bytes()
    (folder / "x.npy").write_bytes(data[:-10])
    return folder / "x.npy"


def declares(*shape: int) -> Callable[[Path], Path]:
    """A file with a header and no elements."""

    def make(folder: Path) -> Path:
        with (folder / "x.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        return folder / "x.npy"

    return make


def corrupt_member(folder: Path) -> Path:
    np.savez_compressed(folder / "data.npz", x=DATA)
    data = bytearray((folder / "data.npz").read_bytes())
    at = data.index(b"x.npy") + 60
    data[at : at + 40] = b"\xff" * 40
    (folder / "data.npz").write_bytes(data)
    return folder / "data.npz"


def broken_image(folder: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(folder / "a.png")
    data = bytearray((folder / "a.png").read_bytes())
    data[60:600] = bytes(540)
    (folder / "a.png").write_bytes(data)
    (folder / "list.txt").write_text("a.png")
    return folder / "list.txt"


NAN = np.where(DATA == 5, np.nan, DATA)
OBJECTS = np.array([{"a": 1}] * 3, object)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder, ["no calibration data"]),
        (lambda folder: folder / "missing.npz", ["no calibration data"]),
        (write("data.csv", b"1,2"), ["no calibration data"]),
        (write("data.npz", b"PK no zip"), ["data.npz cannot be read"]),
        (write("x.npy", b"\x93NUMPY\x01\x00nonsense"), ["x.npy cannot be read"]),
        (write("x.npy", b""), ["x.npy cannot be read"]),
        (truncated, ["x.npy cannot be read", "truncated"]),
        (declares(1, 3, 2**48), ["x.npy cannot be read"]),
        (declares(1, 1, 2**61 + 1), ["x.npy cannot be read"]),
        (corrupt_member, ["data.npz cannot be read"]),
        (write("list.txt", b"\xff\xfe\x80"), ["list.txt cannot be read"]),
        (save(y=DATA), ["no 'x'", "it holds y"]),
        (save(x=DATA, y=DATA), ["no input 'y'", "it has x"]),
        (save(x=DATA[:, :, :3]), ["'x' is 1x3x3, not 1x3x4"]),
        (save(x=DATA[0, 0]), ["'x' is 4, not 1x3x4"]),
        (save(x=DATA[:0]), ["no sample"]),
        (save(x=np.float32(3)), ["'x' is a scalar, not 1x3x4"]),
        (save(x=NAN), ["data.npz, sample 0", "not finite"]),
        (save(x=np.full((1, 3, 4), 1e300)), ["data.npz, sample 0", "not finite"]),  # in float32
        (save(x=DATA.astype("U4")), ["'x' is of <U4"]),
        (save(x=OBJECTS), ["cannot be read"]),
        (write("list.txt", b""), ["no sample in"]),
        (write("list.txt", b"a.png b.png"), ["list.txt:1", "2 files for the 1 inputs x"]),
        (write("list.txt", b"a.png"), ["list.txt:1", "there is no"]),
        (write("list.txt", b"# mean: red\n"), ["list.txt:1", "'red'"]),
        (write("list.txt", b"# std: 1 0 1\n"), ["list.txt:1", "a std of 0"]),
        (write("list.txt", b"\xef\xbb\xbfa.png"), ["list.txt:1: there is no", "/a.png"]),  # behind a byte order mark
        (write("list.txt", b"list.txt"), ["no image of 1 or 3 channels"]),
    ],
)
def test_wrong_data(tmp_path: Path, make: Callable[[Path], Path], words: list[str]) -> None:
    with pytest.raises(CalibrationError) as caught:
        list(open_samples(make(tmp_path), [X]).each())
    assert caught.value.code == "E400"
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_files_for_several_inputs_need_names(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA)
    with pytest.raises(CalibrationError, match="for one input"):
        open_samples(tmp_path / "x.npy", [X, IDS])


def test_counts_have_to_agree(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=DATA, ids=np.zeros((4, 5), np.int64))
    with pytest.raises(CalibrationError, match="4 samples of 'ids' and 6"):
        open_samples(tmp_path / "data.npz", [X, IDS])


def test_no_arrays_and_empty_readers() -> None:
    with pytest.raises(CalibrationError, match="no samples"):
        open_samples([], [X])
    with pytest.raises(CalibrationError, match="no samples"):
        list(open_samples(Reader(0), [X]).each())


def test_all_faults_of_a_list_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.png\nb.png\n")
    with pytest.raises(ErrorGroup) as caught:
        open_samples(tmp_path / "list.txt", [X])
    assert "a.png" in str(caught.value) and "b.png" in str(caught.value)


def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((1000, 64, 64), np.float32))
    samples = open_samples(tmp_path / "data.npz", [value("x", 1, 64, 64)])
    tracemalloc.start()
    for _ in samples.each():
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


def test_broken_images_are_named(tmp_path: Path) -> None:
    samples = open_samples(broken_image(tmp_path), [value("x", 1, 3, 8, 8)])
    with pytest.raises(CalibrationError, match=r"list.txt:1: .*a.png cannot be read"):
        list(samples.each())
