"""``singleton-locks`` in the process of a test, over the model of the service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from singleton.cli.main import run

if TYPE_CHECKING:
    import pytest

    from tests.support.lock_thread import LockThread


class Command:
    """The command in this process, and what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        code = run(arguments)
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: str, code: int = 0) -> Any:
        assert self(*arguments, "--json") == code, self.err
        return json.loads(self.out)

    def lines(self, *arguments: str, code: int = 0) -> list[Any]:
        """Return the lines of a command that writes one after the other."""
        assert self(*arguments, "--json") == code, self.err
        return [json.loads(line) for line in self.out.splitlines()]


def made(thread: LockThread, *names: str) -> None:
    for name in names:
        thread.do(lambda name=name: thread.memory.create(name))  # type: ignore[misc]


def stamped(thread: LockThread, name: str, **metadata: str) -> None:
    made(thread, name)

    async def edit() -> None:
        thread.memory.edit(name, {"SingletonEpoch": "7", **metadata})

    thread.do(edit)
