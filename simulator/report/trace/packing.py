"""Share slices among as few threads as possible, so that those of one thread lie beside or within each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Something that lasted, in whole microseconds, with what is worth knowing about it.

    Attributes:
        key: by what arrows find it; empty if none does.
        tone: one of the format's names of colours, or "".
    """

    name: str
    kind: str
    start: int
    end: int
    args: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    tone: str = ""


class _Thread:
    """What is open on a thread, the outermost first. Slices come in the order of their starts."""

    def __init__(self) -> None:
        self._open: list[Slice] = []
        self.free = 0

    def takes(self, new: Slice) -> bool:
        """Take a slice, unless it would cross the end of one that is open."""
        while self._open and self._open[-1].end <= new.start:
            self._open.pop()
        if self._open and self._open[-1].end < new.end:
            return False
        self._open.append(new)
        self.free = max(self.free, new.end)
        return True


def pack(units: Iterable[Sequence[Slice]]) -> Iterator[tuple[int, Slice]]:
    """Yield each slice with the number of its thread, from 0.

    A unit is what belongs together, such as an invocation and all that is within it. It has its thread for itself, from
    its first start to its last end. What crosses the rest of its unit comes on another thread.
    """
    threads: list[_Thread] = []
    for unit in sorted(map(_in_order, units), key=lambda unit: _place(unit[0])):
        start = unit[0].start
        free = [number for number, thread in enumerate(threads) if thread.free <= start]
        for each in unit:
            number = next((number for number in free if threads[number].takes(each)), len(threads))
            if number == len(threads):
                threads.append(_Thread())
                threads[number].takes(each)
                free.append(number)
            yield number, each


def _in_order(unit: Sequence[Slice]) -> list[Slice]:
    return sorted(unit, key=_place)


def _place(each: Slice) -> tuple[int, int]:
    return each.start, -each.end
