"""The environments of a world's processes: each host has app settings of its own, inside one real process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from simulator.virtual.time.machine import HOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.virtual.time.machine import Machine


class _OfTheHost(dict[str, str]):
    """``os.environ``, for as long as a world lasts: the settings of the host on which the code runs."""

    def __init__(self, outside: Mapping[str, str], settings: Mapping[Machine, Mapping[str, str]]) -> None:
        super().__init__(outside)
        self._settings = settings

    def _here(self) -> Mapping[str, str] | None:
        machine = HOST.get()
        return None if machine is None else self._settings.get(machine)

    def __getitem__(self, name: str) -> str:
        here = self._here()
        return super().__getitem__(name) if here is None else here[name]

    def get(self, name: str, default: Any = None) -> Any:
        here = self._here()
        return super().get(name, default) if here is None else here.get(name, default)

    def __iter__(self) -> Iterator[str]:
        here = self._here()
        return super().__iter__() if here is None else iter(here)

    def keys(self) -> Any:
        return [*self]

    @property
    def _data(self) -> Mapping[str, str]:
        """What is behind the mapping, as `os.environ` has it."""
        return {name: self[name] for name in self}

    def __contains__(self, name: object) -> bool:
        here = self._here()
        return super().__contains__(name) if here is None else name in here


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
