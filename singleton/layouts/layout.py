"""What a layout says: which blob is a lock's, what is written on it, and how it is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.kinds import Level, Stamp
    from singleton.settings.connection import StorageAccount
    from singleton.settings.options import SingletonOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """A way to wait other than in line: some attempts, with delays between them (D-29 to D-31).

    Attributes:
        retries: attempts after the first.
        shortest: seconds of the first delay.
        longest: the most seconds of a delay.
        named: what ``retries`` is called where it is set, for errors.
    """

    retries: int
    shortest: int
    longest: int
    named: str


class Layout(Protocol):
    """What a guard needs to know of where its locks are, and how they are waited for.

    Attributes:
        by_host: whether the host id is part of its locks' names.
        of_the_host: whether they are the locks of the Functions host itself.
    """

    by_host: ClassVar[bool]
    of_the_host: ClassVar[bool]

    @property
    def attempts(self) -> Attempts | None:
        """How the lock is waited for; None: in line, as ever."""

    def adapted(self, options: SingletonOptions) -> SingletonOptions:
        """Return the options with what this layout lays down: its container, above all."""

    def account(self, account: StorageAccount) -> StorageAccount:
        """Return the account, reached in the way that this layout lays down."""

    def path(self, scope: str | None, scope_id: str, *, listener: bool = False) -> str | None:
        """Return the scope's path of a declaration with these arguments; refuse them if they name no lock here."""

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """Return the name of the lock's blob; ``listener``: of the lock of who listens (W-33)."""

    def stamp(self, *, listener: bool = False) -> Stamp:
        """Say what is written on the blob with each acquisition, unless ``fencing_tokens`` is off."""


class Plain:
    """What layouts share that lay down nothing about it."""

    __slots__ = ()

    by_host: ClassVar[bool] = True
    of_the_host: ClassVar[bool] = False
    attempts: ClassVar[None] = None

    def account(self, account: StorageAccount) -> StorageAccount:
        """See ``Layout.account``."""
        return account

    def path(self, scope: str | None, scope_id: str, *, listener: bool = False) -> str | None:  # noqa: ARG002
        """See ``Layout.path``: all go together."""
        return scope
