"""Where locks are: a container of a storage account."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from singleton.settings.connection import StorageAccount
    from singleton.settings.given import GivenAccount, GivenClients


@dataclass(frozen=True, slots=True)
class Place:
    """A container of a storage account. How requests travel there is no part of which it is.

    ``http`` is that of ``SingletonOptions``; who opens the store decides.
    """

    account: StorageAccount | GivenAccount | GivenClients
    container: str
    http: Literal["direct", "sdk"] = field(default="direct", compare=False)

    def __hash__(self) -> int:
        """Return that of the container, which a string remembers: places are looked up several times for each lock."""
        return hash(self.container)
