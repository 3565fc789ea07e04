"""What replaces the lock thread of this process: for virtual time, and for locks in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.runtime.calls import Calls
    from singleton.settings.accounts import GivenClients

_provider: Callable[[], Calls] | None = None
_accounts: Callable[[str], GivenClients] | None = None


def provide_runtime(
    provider: Callable[[], Calls] | None, accounts: Callable[[str], GivenClients] | None = None
) -> None:
    """Replace the lock thread of this process. None restores it.

    ``accounts`` returns the account of a connection's name; without ``accounts`` the settings decide.
    """
    global _provider, _accounts
    _provider, _accounts = provider, accounts


def provided_runtime() -> Calls | None:
    """Return what replaces the lock thread; None: nothing does."""
    return None if _provider is None else _provider()


def provided_account(connection: str) -> GivenClients | None:
    """Return the account of a connection's name under a replaced lock thread; None: the settings decide."""
    return None if _accounts is None else _accounts(connection)
