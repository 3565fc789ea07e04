"""What a layout decides: which blob is a lock's, what is written on it, and how to wait. Also the default layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from singleton.layouts.blob_name import lock_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from singleton.base.kinds import Level, Stamp
    from singleton.layouts.attempt_delays import Attempts


class Layout:
    """Where the locks of a guard are, and how a guard waits for them.

    ``Layout`` itself is the default layout: names that no two locks share, in the container of the options, fencing
    tokens, and waiting in line. Subclasses override the differences.

    Attributes:
        by_host: whether the host id is part of the locks' names.
        foreign: whether other libraries take the locks, too.
        dotnet: whether scopes are printed as .NET does it, which makes nothing of some values.
    """

    by_host: ClassVar[bool] = True
    foreign: ClassVar[bool] = False
    dotnet: ClassVar[bool] = False

    @property
    def attempts(self) -> Attempts | None:
        """How the lock is waited for; None: in line, the default."""
        return None

    @property
    def fixed_options(self) -> Mapping[str, Any]:
        """The options whose values this layout lays down, by name: the container, above all."""
        return {}

    def account_url(self, endpoint: str) -> str | None:  # noqa: ARG002
        """Return the URL at which an identity reaches the account of this endpoint; None: the endpoint itself."""
        return None

    def path(self, scope: str | None, scope_id: str, *, listener: bool = False) -> str | None:  # noqa: ARG002
        """Return the scope's path of a declaration with these arguments; refuse arguments that name no lock."""
        return scope

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """Return the name of the lock's blob; ``listener``: of the lock of who listens (W-33)."""
        return lock_name(host_id, function, scopes, level, listener=listener)

    def stamp(self, *, listener: bool = False) -> Stamp:  # noqa: ARG002 - a leader has a token, too
        """Say what is written on the blob with each acquisition, unless ``fencing_tokens`` is off."""
        return "token"
