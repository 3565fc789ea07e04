"""The scope of an invocation stands on its lock's blob, for operators: not where it is hashed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from singleton import singleton
from singleton.locking.holder import holder_in
from tests.support.lock_thread import Context, LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def recorded(thread: LockThread, body: object, **arguments: Any) -> str | None:
    """Return the scope that is recorded while the body of an invocation runs."""
    found: list[str | None] = []

    @singleton(**arguments)
    def ship(msg: str) -> None:
        (name,) = thread.leased()
        holder = holder_in(name, thread.do(lambda: thread.memory.read(name)))
        assert holder is not None
        assert (holder.owner, holder.function) == ("inv-1", "ship")
        found.append(holder.scope)

    ship(msg=json.dumps(body), context=Context("inv-1"))  # type: ignore[call-arg]
    return found[0]


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ({"Id": 419}, {"scope": "Id"}, "419"),
        ({"Id": "a/b", "Zone": "north"}, {"scope": "Id", "scope_id": "{Zone}"}, "north.a/b"),
        ({"Id": "Zoë\n"}, {"scope": "Id"}, "Zo??"),
        ({"Id": "x" * 1000}, {"scope": "Id"}, "x" * 200),
        ({}, {"scope_id": "nightly"}, "nightly"),
        ({}, {}, None),
        ({"Id": "jane@example.com"}, {"scope": "Id", "scope_hash": True}, None),
    ],
)
def test_it_is_recorded_as_the_blob_is_made_as_metadata_can_have_it(
    thread: LockThread, body: object, arguments: Any, expected: str | None
) -> None:
    assert recorded(thread, body, **arguments) == expected
