"""The tree of errors is the one that its docstring draws, and each error survives a process boundary."""

from __future__ import annotations

import copy
import copyreg
import pickle
import re

import pytest

from singleton.base import errors
from singleton.base.errors import SingletonError, StorageError

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SingletonError)]


def drawn() -> dict[str, str]:
    """Return each name in the drawing with its parent's."""
    parents: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^(\s+[│├└─\s]*)(\w+)\b", line):
            depth, name = len(found[1]), found[2]
            while path and path[-1][0] >= depth:
                path.pop()
            parents[name] = path[-1][1] if path else "Exception"
            path.append((depth, name))
    return parents


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_an_error_survives_copying_with_all_that_it_knows(kind: type[SingletonError], clone: object) -> None:
    assert callable(clone)
    known = {"lock": "locks/a", "owner": "me", "reason": "why"}
    if issubclass(kind, StorageError):
        error: SingletonError = kind("text", **known, status=503, code="ServerBusy")
    else:
        error = kind("text", **known)
    again = clone(error)
    assert type(again) is kind
    assert str(again) == "text"
    assert vars(again) == vars(error)
    assert again.lock == "locks/a"


def test_errors_are_what_callers_of_the_standard_library_expect() -> None:
    assert issubclass(errors.LockNotAcquired, TimeoutError)
    assert issubclass(errors.ConfigurationError, ValueError)
    assert not issubclass(errors.StorageUnavailable, TimeoutError)


def test_another_error_is_another_though_some_library_has_exceptions_copied_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As tblib does, which Dask brings along."""
    for kind in KINDS:
        monkeypatch.setitem(copyreg.dispatch_table, kind, lambda error: (lambda: error, ()))
        error = kind("told", lock="reports", owner="one")
        twin = error.another("two")
        assert twin is not error
        assert (type(twin), twin.lock, twin.args, str(twin)) == (kind, "reports", ("told",), "told")
        assert (twin.owner, error.owner) == ("two", "one")
