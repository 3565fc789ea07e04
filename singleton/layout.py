"""Layouts: which blob is a lock's, what is written on it, and how it is waited for.

``default`` is ours. ``webjobs`` (``webjobs.py``) and ``dequeueable`` (``dequeueable.py``) are those of two .NET
libraries, blob for blob, so that their hosts and ours exclude one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from singleton.naming import Level, lock_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from singleton.connection import BlobAccount
    from singleton.fencing import Stamp
    from singleton.guard import LayoutName
    from singleton.hold import Hold
    from singleton.options import SingletonOptions
    from singleton.registry import Address, Registry


class Layout(Protocol):
    """What a guard needs to know of where its locks are.

    Attributes:
        by_host: whether the host id is part of its locks' names.
        of_the_host: whether they are the locks of the Functions host itself.
    """

    by_host: ClassVar[bool]
    of_the_host: ClassVar[bool]

    def adapted(self, options: SingletonOptions) -> SingletonOptions:
        """Return the options with what this layout lays down: its container, above all."""

    def account(self, account: BlobAccount) -> BlobAccount:
        """Return the account, reached in the way that this layout lays down."""

    def path(self, scope: str | None, scope_id: str, *, listener: bool = False) -> str | None:
        """Return the scope's path of a declaration with these arguments; refuse them if they name no lock here."""

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """Return the name of the lock's blob; ``listener``: of the lock of who listens (W-33)."""

    def stamp(self, *, listener: bool = False) -> Stamp:
        """Say what is written on the blob with each acquisition, unless ``fencing_tokens`` is off."""

    async def acquire(self, registry: Registry, address: Address, *, timeout: float | None, owner: str) -> Hold:
        """Acquire in this layout's way, on the lock thread; ``timeout`` as for ``Lock.acquire``."""


class Plain:
    """What layouts share that lay down nothing about it."""

    __slots__ = ()

    by_host: ClassVar[bool] = True
    of_the_host: ClassVar[bool] = False

    def account(self, account: BlobAccount) -> BlobAccount:
        """See ``Layout.account``."""
        return account

    def path(self, scope: str | None, scope_id: str, *, listener: bool = False) -> str | None:  # noqa: ARG002
        """See ``Layout.path``: all go together."""
        return scope

    async def acquire(self, registry: Registry, address: Address, *, timeout: float | None, owner: str) -> Hold:
        """See ``Lock.acquire``."""
        return await registry.acquire(address, timeout=timeout, owner=owner)


class DefaultLayout(Plain):
    """Injective names in a container of one's choice, fencing tokens, and waiting in line."""

    def adapted(self, options: SingletonOptions) -> SingletonOptions:
        """See ``Layout.adapted``."""
        return options

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """See ``naming.lock_name``."""
        return lock_name(host_id, function, scopes, level, listener=listener)

    def stamp(self, *, listener: bool = False) -> Stamp:  # noqa: ARG002 - a leader has a token, too
        """See ``Layout.stamp``."""
        return "token"


def layout_named(name: LayoutName, settings: Mapping[str, str]) -> Layout:
    """Return the layout of this name, with what the app settings say of it.

    Raises:
        ConfigurationError: a setting of it is wrong.
    """
    if name == "webjobs":
        from singleton.webjobs import WebJobsLayout

        return WebJobsLayout()
    if name == "dequeueable":
        from singleton.dequeueable import DequeueableLayout
        from singleton.dequeueable_options import load_dequeueable

        return DequeueableLayout(load_dequeueable(settings))
    return DefaultLayout()
