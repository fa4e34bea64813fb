"""Comparing with the reference: what counts as equal, and what the verdict says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import mcpc
from mcpc.errors import ModelError, UsageError
from mcpc.models import digits
from mcpc.verification import compare, reference, selftest, verify


def test_tolerance_scales_with_the_output() -> None:
    want = np.array([[1000.0, 0.0]], np.float32)
    assert compare("y", want + np.float32(0.05), want).matches  # 1e-4 of the range of 1000 is 0.1
    result = compare("y", want + np.array([0, 0.2], np.float32), want)
    assert not result.matches and result.mismatches == 1 and result.worst_index == (0, 1)
    assert result.worst_got == pytest.approx(0.2) and result.worst_want == 0
    assert result.excess == pytest.approx(2.0) and "'y' differs in 1 of 2 elements" in result.describe()


def test_given_tolerances_are_used() -> None:
    want = np.array([1.0, 2.0], np.float32)
    assert compare("y", want * np.float32(1.05), want, rtol=0.1, atol=0).matches
    assert not compare("y", want * np.float32(1.05), want, rtol=0.01, atol=0).matches


def test_nan_and_infinity_match_only_themselves() -> None:
    want = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert compare("y", want.copy(), want).matches
    for at, value in ((0, 1.0), (1, 1e30), (2, np.inf), (3, np.nan), (3, np.inf)):
        got = want.copy()
        got[at] = value
        result = compare("y", got, want)
        assert result.mismatches == 1 and result.worst_index == (at,), (at, value)


def test_integers_and_booleans_compare_exactly() -> None:
    want = np.array([1000000, 5], np.int64)
    assert compare("y", want.copy(), want).matches
    assert not compare("y", want + np.array([1, 0]), want, rtol=1, atol=10).matches
    assert compare("y", np.array([True]), np.array([False])).mismatches == 1


def test_other_shape_or_type_is_a_mismatch() -> None:
    want = np.zeros((2, 3), np.float32)
    assert "is float32[3, 2] instead of float32[2, 3]" in compare("y", np.zeros((3, 2), np.float32), want).describe()
    assert not compare("y", np.zeros((2, 3)), want).matches


def test_empty_and_scalar_outputs() -> None:
    assert compare("y", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).matches
    assert compare("y", np.array(2, np.float32), np.array(3, np.float32)).mismatches == 1


def test_reference_runs_the_model_and_names_what_does_not_belong() -> None:
    image = digits.held_out()[0][:1]
    (probabilities,) = reference(digits.MODEL, {"image": image}, ["probabilities"])
    assert probabilities.shape == (1, 10) and probabilities.sum() == pytest.approx(1, rel=1e-5)
    with pytest.raises(UsageError, match="no input 'pixels'"):
        reference(digits.MODEL, {"pixels": image}, ["probabilities"])
    with pytest.raises(UsageError, match="no output 'scores'"):
        reference(digits.MODEL, {"image": image}, ["scores"])
    with pytest.raises(UsageError, match="refuses the inputs"):
        reference(digits.MODEL, {"image": image[:, :, :4]}, ["probabilities"])


def test_reference_refuses_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError) as caught:
        reference(path, {}, [])
    assert caught.value.code == "E100"


def test_what_onnx_runtime_lacks_onnx_itself_judges(tmp_path: Path) -> None:
    """Swish, in every state between passes, in the self-test and for an artifact; FlexAttention, unknown to it."""
    swish = "y = Swish<alpha = 1.5>(x)"
    model = parse_model(f'<ir_version: 12, opset_import: ["": 28]> g (float[2, n] x) => (float[2, n] y) {{ {swish} }}')
    onnx.save(model, tmp_path / "m.onnx")
    path = mcpc.compile(tmp_path / "m.onnx", "host", tmp_path / "m.mcp26bin", verify_passes=True)
    assert all(each.matches for each in (*selftest(path), *verify(path, tmp_path / "m.onnx")))
    text = "float[1, 2, 3, 4] q) => (float[1, 2, 3, 4] y) { y = ai.onnx.preview.FlexAttention(q, q, q) }"
    flex = parse_model(f'<ir_version: 12, opset_import: ["": 28, "ai.onnx.preview": 1]> g ({text}')
    (got,) = reference(flex.SerializeToString(), {"q": np.ones((1, 2, 3, 4), np.float32)}, ["y"])
    np.testing.assert_allclose(got, 1.0)
