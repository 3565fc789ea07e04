"""Where locks are: a container of a storage account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from singleton.settings.connection import StorageAccount
    from singleton.settings.given import GivenAccount, GivenClients


@dataclass(frozen=True, slots=True)
class Place:
    """A container of a storage account."""

    account: StorageAccount | GivenAccount | GivenClients
    container: str
