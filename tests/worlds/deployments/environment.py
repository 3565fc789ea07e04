"""The environments of a world's processes: each host has app settings of its own, inside one real process."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from simulator.virtual.time.machine import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.virtual.time.machine import Machine


class _OfTheHost(MutableMapping[str, str]):
    """``os.environ``, for as long as a world lasts: the settings of the host on which the code runs.

    No subclass of ``dict``, whose copies and comparisons would have the settings from outside.
    """

    def __init__(self, outside: Mapping[str, str], settings: Mapping[Machine, Mapping[str, str]]) -> None:
        self._outside = dict(outside)
        self._settings = settings

    def _here(self) -> Mapping[str, str]:
        machine = HOST.get()
        return self._outside if machine is None else self._settings.get(machine, self._outside)

    def __getitem__(self, name: str) -> str:
        return self._here()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._here())

    def __len__(self) -> int:
        return len(self._here())

    def __setitem__(self, name: str, value: str) -> None:
        self._outside[name] = value

    def __delitem__(self, name: str) -> None:
        del self._outside[name]


@contextmanager
def environments(settings: Mapping[Machine, Mapping[str, str]]) -> Iterator[None]:
    """Let the code on each of these machines see its own settings in ``os.environ``, and nothing else."""
    if not settings:
        yield
        return
    with environment(_OfTheHost(os.environ, settings)):
        yield


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Let these settings be the environment in the block: this machine's own can't change a world."""
    before = os.environ
    os.environ = cast("Any", settings)  # noqa: B003 - nothing is started in the block that would inherit it
    try:
        yield
    finally:
        os.environ = before  # noqa: B003
