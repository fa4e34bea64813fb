"""Calibration tables: saved, edited, read again, and read from other tools' files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from mcpc.calib.tables import load_table
from mcpc.errors import CalibrationError
from mcpc.ranges import Range, RangeTable

TABLE = RangeTable(
    {"a": Range(-1.5, 2.0), 'odd "name"\n': Range(0.0, 0.0)},
    "minmax",
    3,
    "data.npz",
    "ONNX Runtime",
    ignored={"a": 2},
    usual={"a": 0.0009765625},
)


def test_a_table_is_what_was_saved(tmp_path: Path) -> None:
    TABLE.save(tmp_path / "table.json")
    assert load_table(tmp_path / "table.json") == TABLE


def test_a_table_can_be_edited(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    TABLE.save(path)
    text = path.read_text()
    assert '"a": {"low": -1.5, "high": 2.0, "ignored": 2, "usual": 0.0009765625}' in text
    path.write_text(text.replace("-1.5", "-3"))
    assert load_table(path).ranges["a"] == Range(-3.0, 2.0)


def test_tensorrt_cache(tmp_path: Path) -> None:
    path = tmp_path / "calibration.cache"
    lines = ["TRT-8601-EntropyCalibration2", f"input: {struct.pack('>f', 0.5).hex()}", "layer: 1/out: 3c010a14", ""]
    path.write_text("\n".join(lines))
    table = load_table(path)
    assert table.method == "TRT-8601-EntropyCalibration2"
    assert table.ranges["input"] == Range(-63.5, 63.5)
    assert table.ranges["layer: 1/out"].high == pytest.approx(127 * 0.00787594)


@pytest.mark.parametrize("form", ["write_calibration_table", "save_tensors_data"])
def test_onnxruntime_tables(tmp_path: Path, form: str) -> None:
    import numpy as np
    from onnxruntime.quantization import calibrate, quant_utils

    data = {
        "a": calibrate.TensorData(lowest=np.float32(-1.25), highest=np.float32(2.5)),
        "b": calibrate.TensorData(lowest=np.array([0], np.float32), highest=np.array([4], np.float32)),
    }
    if form == "save_tensors_data":
        if not hasattr(calibrate, "save_tensors_data"):
            pytest.skip("this ONNX Runtime has no save_tensors_data")
        path = tmp_path / "calibration.json"
        calibrate.save_tensors_data(calibrate.TensorsData(calibrate.CalibrationMethod.MinMax, data), path)
    else:
        quant_utils.write_calibration_table(data, str(tmp_path))
        path = tmp_path / "calibration.json"
        text = load_table(tmp_path / "calibration.cache")
        assert text.ranges["a"] == Range(-2.5, 2.5)
    assert load_table(path).ranges == {"a": Range(-1.25, 2.5), "b": Range(0.0, 4.0)}


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "{}", "[]", '{"format": "mcpc calibration table"}', "a b c\nd", "TRT-1\nx: zz",
        '{"a": ' * 100_000,
        json.dumps({"format": "mcpc calibration table", "version": 2, "tensors": {}}),
        json.dumps({"format": "mcpc calibration table", "version": 1, "tensors": {"a": {"low": 2, "high": 1}}}),
        json.dumps({"format": "mcpc calibration table", "version": 1, "tensors": {"a": {"low": "x", "high": 1}}}),
        json.dumps({"format": "mcpc calibration table", "version": 1, "tensors": {"a": {"low": 1}}}),
        '{"format": "mcpc calibration table", "version": 1, "tensors": {"a": {"low": NaN, "high": 1}}}',
    ],
)  # fmt: skip
def test_damaged_tables_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table"
    path.write_text(text)
    if text == "":
        assert load_table(path).ranges == {}
        return
    with pytest.raises(CalibrationError) as caught:
        load_table(path)
    assert caught.value.code == "E400" and "table" in str(caught.value)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"\xff\xfe\x00\x80")
    for each in (path, tmp_path / "missing", tmp_path):
        with pytest.raises(CalibrationError):
            load_table(each)
