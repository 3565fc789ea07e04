"""The layout of Dequeueable's singletons for Azure Queue Storage: the scope's value is the blob's name, nothing else.

So functions, queues and apps, .NET hosts among them, share a lock if they have equal values in one container (D-18). A
value that can't be the name of a blob, or that the service takes for another name, is refused: the message fails, and
is tried again.

The options are Dequeueable's own, from the settings ``Dequeueable__Singleton__…`` (D-1), and so is the way to wait:
some attempts, with delays that grow at random between them (D-29 to D-31). Unlike Dequeueable, no delay follows the
last attempt, storage that denies access fails the invocation at once, and holds have fencing tokens, which a .NET host
leaves alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.names import check_blob_name
from singleton.base.words import quoted
from singleton.layouts.dequeueable_options import SECTION
from singleton.layouts.layout import Attempts, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.kinds import Level
    from singleton.layouts.dequeueable_options import DequeueableOptions
    from singleton.settings.connection import StorageAccount
    from singleton.settings.options import SingletonOptions

_ACCOUNT: Final = re.compile(r"\{accountname\}", re.IGNORECASE)
_OTHERS: Final = "locks/"
"""Where the other layouts keep their locks, as a rule in the same container."""


@dataclass(frozen=True, slots=True)
class DequeueableLayout(Layout):
    """See the module."""

    by_host: ClassVar[bool] = False
    foreign: ClassVar[bool] = True

    options: DequeueableOptions

    @property
    def attempts(self) -> Attempts:
        """See ``Layout.attempts`` (D-29 to D-31)."""
        return Attempts(
            retries=self.options.retries,
            shortest=self.options.shortest,
            longest=self.options.longest,
            named=f"{SECTION}:MaxRetries",
        )

    def adapted(self, options: SingletonOptions) -> SingletonOptions:
        """See ``Layout.adapted``: container, lease and polling are the section's; only a declaration has a time-out."""
        return options.replace(
            container=self.options.container,
            lock_period=self.options.lease,
            lock_acquisition_timeout=None,
            lock_acquisition_min_polling_interval=0.1,  # never above the longest, which is a second at least
            lock_acquisition_polling_interval=self.options.longest,
        )

    def account(self, account: StorageAccount) -> StorageAccount:
        """See ``Layout.account``: with an identity, by ``BlobUriFormat`` (D-19, D-20)."""
        if self.options.account_url is None or account.credential is None:
            return account
        name = account.endpoint.partition("://")[2].partition(".")[0]
        return replace(account, account_url=_ACCOUNT.sub(lambda _: name, self.options.account_url, count=1))

    def path(self, scope: str | None, scope_id: str, *, listener: bool = False) -> str | None:
        """See ``Layout.path``: the declaration's, else the section's (D-1, D-16)."""
        if listener:
            raise ConfigurationError("mode='listener' can't be used with layout='dequeueable': use another layout")
        if scope is not None and scope_id:
            raise ConfigurationError("layout='dequeueable' takes one value: give scope or scope_id, not both")
        if scope is None and not scope_id and self.options.scope is None:
            raise ConfigurationError(
                "layout='dequeueable' needs a scope: give @singleton one, or set Dequeueable__Singleton__Scope"
            )
        return scope or (None if scope_id else self.options.scope)

    def lock(  # of all parts, only the scope counts
        self,
        host_id: str,  # noqa: ARG002
        function: str,  # noqa: ARG002
        scopes: Sequence[str],
        level: Level = "function",  # noqa: ARG002
        *,
        listener: bool = False,
    ) -> str:
        """Return the scope's value as it is (D-18).

        Raises:
            ScopeError: it is no name of a blob, or one under which the other layouts keep their locks.
            ConfigurationError: there is not exactly one value, or it is asked for a listener's lock.
        """
        if listener or len(scopes) != 1:
            raise ConfigurationError(
                "layout='dequeueable' locks one scope's value around each invocation: give one scope, and no listener"
            )
        (value,) = scopes
        try:
            check_blob_name(value)
        except ConfigurationError as error:
            raise ScopeError(f"layout='dequeueable': {error}", reason="name") from None
        if value.startswith(("/", _OTHERS)):
            raise ScopeError(
                f"layout='dequeueable': the scope's value {quoted(value)} is the name of the lock's blob, and may not "
                f"begin with a slash, which .NET drops, or with {_OTHERS}, where the other layouts keep their locks",
                reason="name",
            )
        return value
