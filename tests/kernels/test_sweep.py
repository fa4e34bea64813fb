"""Errors of the elementary functions over arguments as dense as a second each allows."""

from __future__ import annotations

import ctypes

import pytest

from . import sweep
from .functions import FUNCTIONS

#: A prime: through all exponents and both signs, 8 million arguments.
STEP = 509


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return sweep.library("x86_64_v3", tmp_path_factory.mktemp("sweep"))


@pytest.mark.parametrize("name", sweep.FUNCTIONS)
def test_error(name: str, loaded: ctypes.CDLL) -> None:
    error, where = sweep.largest_error(loaded, name, STEP)
    assert 0.4 < error <= FUNCTIONS[name].ulp, f"{name}({where.hex()}): {error:.3f} ulp"
