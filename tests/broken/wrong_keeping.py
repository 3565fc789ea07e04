"""Locks that forget, mix up or repeat what is kept with them: state, results of ``once``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from singleton.base.state import Kept
from singleton.locking.section_state import SectionState
from singleton.patterns.once import once_guard
from singleton.patterns.once.results import Look, Outcome
from tests.broken.breaking import Now, around, broken

if TYPE_CHECKING:
    from tests.broken.breaking import Patch


@broken("hold.state of 'count_up': a value that was kept is gone", app="keeping")
def a_write_of_state_is_dropped(patch: Patch) -> None:
    async def write(_: SectionState, __: Kept) -> None:
        return

    patch.setattr(SectionState, "write", write)


@broken("an older value was read", app="keeping")
def every_tenth_write_of_state_is_dropped(patch: Patch) -> None:
    now = Now(10)

    def made(real: Any) -> Any:
        async def write(self: SectionState, kept: Kept) -> None:
            if kept.marks.get("SingletonState") == "once" or not now():
                await real(self, kept)

        return write

    around(patch, SectionState, "write", made)


@broken("hold.state of 'count_up': a value of another key was read", app="keeping")
def all_locks_of_a_process_keep_one_state(patch: Patch) -> None:
    kept_here: list[Kept] = [Kept()]

    def made(_: Any) -> Any:
        async def write(_: SectionState, kept: Kept) -> None:
            kept_here[0] = replace(kept, marks={**kept.marks})

        return write

    async def read(_: SectionState) -> Kept:
        return kept_here[0]

    around(patch, SectionState, "write", made)
    patch.setattr(SectionState, "read", read)


@broken("a body ran again after its result was kept", app="keeping")
def what_was_done_once_is_done_again(patch: Patch) -> None:
    def outcome_in(*_: Any) -> None:
        return None

    patch.setattr(Look, "outcome_in", outcome_in)


@broken("@once of 'receipt': a value of another key was read", app="keeping")
def once_answers_with_the_result_of_another_key(patch: Patch) -> None:
    last: dict[str, Outcome] = {}

    def made(real: Any) -> Any:
        def replayed(call: Any, outcome: Outcome) -> Any:
            other = last.get(call.function, outcome)
            last[call.function] = outcome
            return real(call, other)

        return replayed

    around(patch, once_guard, "_replayed", made)
