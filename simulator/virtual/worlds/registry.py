"""The workloads by name: a workload starts the work of a virtual world's hosts, drawn from the world's seed.

A module registers its workloads while Python imports the module. Processes that run scenarios elsewhere first import
the modules in ``modules``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.virtual.worlds.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Work for the hosts of a world."""

    start: Callable[[World], None]
    checks: tuple[str, ...] = ()  # modules whose docstrings explain the checks of this workload
    in_all: bool = True  # whether ``all`` includes the workload
    through_sdk: bool = True  # whether ``--through-sdk`` can carry every request of the workload
    small: int = 0
    """How many hosts the worlds have, if they are small: they are not drawn, but struck at every point."""
    replay: str = ""
    """The command to replay a story, with ``{file}`` for its path. Default: ``singleton-sim replay``."""


_workloads: dict[str, Workload] = {}
_modules: dict[str, None] = {}


class UnknownWorkload(ValueError):
    """No module has registered a workload of this name."""


def register(module: str, workloads: Mapping[str, Workload]) -> None:
    """Add the workloads of a module, in order. A name that was registered before moves to its new place."""
    _modules[module] = None
    for name, added in workloads.items():
        _workloads.pop(name, None)
        _workloads[name] = added


def modules() -> tuple[str, ...]:
    """Return the modules that have registered workloads."""
    return tuple(_modules)


def names(*, in_all: bool | None = None) -> tuple[str, ...]:
    """Return the names of the workloads: of every workload, of those in ``all``, or of those outside ``all``."""
    drawn = {name: each for name, each in _workloads.items() if not each.small}
    return tuple(name for name, each in drawn.items() if in_all in (None, each.in_all))


def small() -> tuple[str, ...]:
    """Return the names of the workloads with small worlds."""
    return tuple(name for name, each in _workloads.items() if each.small)


def workload(name: str) -> Workload:
    """Return a workload.

    Raises:
        UnknownWorkload: the message lists the names in ``all``.
    """
    try:
        return _workloads[name]
    except KeyError:
        known = ", ".join(names(in_all=True))
        raise UnknownWorkload(f"workload {name!r} is unknown: it must be one of {known}") from None
