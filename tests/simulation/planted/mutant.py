"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted bug and what it ``breaks``. Where exploring can't see it, ``by`` names the tests that do, ``why``.

    ``among``: the workload to explore; all, if it is empty. Each point is struck of one with small worlds.
    ``wire``: whether all worlds run over the virtual wire; else none does.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    by: tuple[str, ...] = ()
    why: str = ""
    among: str = ""
    wire: bool = False
