"""What the tests of operators share: results that take a compilation are made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Once = Callable[[tuple[Any, ...], Callable[[], Any]], Any]


@pytest.fixture(scope="session")
def once() -> Once:
    """``once(key, make)`` is what ``make()`` gave or raised when it was first asked for under this key."""
    kept: dict[tuple[Any, ...], tuple[Any, Exception | None]] = {}

    def get(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in kept:
            try:
                kept[key] = make(), None
            except Exception as error:
                kept[key] = None, error
        result, error = kept[key]
        if error is not None:
            raise error
        return result

    return get
