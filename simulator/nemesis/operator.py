"""What an operator does to a lock that somebody has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from simulator.nemesis.fault import Aim, Done, Fault, Mark, Ongoing, short

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from simulator.nemesis.field import Field, Tell

ACTIONS: Final = {"break": "breaks the lease", "delete": "deletes the blob"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Break(Fault, kind="break"):
    """An operator breaks the lease of a lock at once, or deletes its blob."""

    about: ClassVar[str] = "an operator breaks the lease of a lock at once, or deletes its blob"
    aims: ClassVar[tuple[Aim, ...]] = ("holder", "holder", "renewal", "release")
    lasts: ClassVar[bool] = False
    disables: ClassVar[bool] = False
    aim: Aim = "holder"
    action: str = "break"

    @property
    def easiest(self) -> Aim:
        return "holder"

    @classmethod
    def details(cls, rng: random.Random) -> Mapping[str, Any]:
        return {"action": rng.choice(("break", "break", "delete"))}

    def begin(self, field: Field, mark: Mark, tell: Tell) -> Ongoing | None:
        return Done() if mark.lock and field.operate(mark.lock, self.action, tell) else None

    def words(self, mark: Mark, seconds: float | None) -> str:  # noqa: ARG002 - an instant
        return f"an operator {ACTIONS[self.action]} of {short(mark.lock)}, which {mark.who} has"
