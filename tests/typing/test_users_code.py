"""A user's file does what its types say; ``tests/docs/test_pages_types.py`` has type checkers read it."""

from __future__ import annotations

from singleton.testing import memory_locks


def test_it_runs() -> None:
    with memory_locks():
        from tests.typing.users_code import main

        main()
