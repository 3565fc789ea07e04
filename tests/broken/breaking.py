"""What breaking a lock needs: a list of the broken ones, and how a part of the product is put in another's place."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from simulator.virtual.time.machine import HOST
from singleton.functions.guard import Guard
from singleton.layouts.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable


class Patch(Protocol):
    """What sets attributes: pytest's monkeypatch in virtual worlds; in a real host ``Forever``."""

    def setattr(self, target: object, name: str, value: object, /) -> None: ...


class Forever:
    """Sets attributes for the life of the process."""

    def setattr(self, target: object, name: str, value: object, /) -> None:
        setattr(target, name, value)


Breaks: TypeAlias = "Callable[[Patch], None]"


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A lock that is broken in one way, what must be said of it, and where it shows.

    Attributes:
        says: words of the violation.
        workload: of the virtual worlds that show it; empty: only real hosts do.
        app: of `tests/broken/apps`, for real hosts; empty: the sample.
        options: of ``singleton-sim``.
        seed: of the world to look at first, as it shows there.
    """

    name: str
    breaks: Breaks
    says: str
    workload: str
    app: str
    options: str
    seed: int


BROKEN: Final[dict[str, Broken]] = {}


def broken(
    says: str, workload: str = "", *, app: str = "", options: str = "", seed: int = 2
) -> Callable[[Breaks], Breaks]:
    """Enter a function that breaks the lock into the list, named by what it does."""

    def enter(breaks: Breaks) -> Breaks:
        name = breaks.__name__.replace("_", "-")
        BROKEN[name] = Broken(
            name=name, breaks=breaks, says=says, workload=workload, app=app, options=options, seed=seed
        )
        return breaks

    return enter


def around(patch: Patch, owner: object, name: str, made: Callable[[Any], Any]) -> None:
    """Put what is made of an attribute in its place."""
    patch.setattr(owner, name, made(getattr(owner, name)))


def names(patch: Patch, change: Callable[[str], str]) -> None:
    """Give all locks other names."""
    around(patch, Layout, "lock", lambda real: lambda *args, **more: change(real(*args, **more)))


def bodies(patch: Patch, changed: Callable[[Any], Any]) -> None:
    """Run something else in the place of each body, under the lock."""

    def made(real: Any) -> Any:
        async def run(self: Any, call: Any, body: Any, *args: Any, **more: Any) -> Any:
            return await real(self, call, changed(body), *args, **more)

        return run

    around(patch, Guard, "_run", made)


def entries(patch: Patch, made: Callable[[Any], Any]) -> None:
    """Put another way to get the lock in its place."""
    around(patch, Guard, "_enter", made)


class Now:
    """Says yes every so many times, counted for each host by itself."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._counts: defaultdict[str, count[int]] = defaultdict(lambda: count(1))

    def __call__(self) -> bool:
        return next(self._counts[this_host()]) % self._every == 0


def this_host() -> str:
    """Name the host that runs this: a virtual one, or this process."""
    machine = HOST.get()
    return str(os.getpid()) if machine is None else machine.name
