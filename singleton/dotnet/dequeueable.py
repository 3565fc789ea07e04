"""The layout of Dequeueable's singletons for Azure Queue Storage: the scope's value is the blob's name, nothing else.

So functions, queues and apps, .NET hosts among them, share a lock if they have equal values in one container (D-18). A
value that can't be the name of a blob, or that the service takes for another name, is refused: the message fails, and
is tried again.

The options are Dequeueable's own, from the settings ``Dequeueable__Singleton__…`` (D-1), like the way to wait: a number
of attempts, with delays that grow at random between attempts (D-29 to D-31). Unlike Dequeueable, no delay follows the
last attempt, storage that denies access fails the invocation at once, and holds have fencing tokens, which a .NET host
leaves alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from singleton.base.appsettings import section
from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.json_values import check_path
from singleton.base.names import check_blob_name, check_container_name
from singleton.base.words import did_you_mean, quoted
from singleton.layouts.attempt_delays import Attempts
from singleton.layouts.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from singleton.base.kinds import Level

SECTION: Final = "Dequeueable:Singleton"
_URI_TAIL: Final = "/{containername}/{blobname}"
_MOST: Final = 2**31 - 1
_ACCOUNT: Final = re.compile(r"\{accountname\}", re.IGNORECASE)
_OTHERS: Final = "locks/"
"""Folder of the other layouts' locks, as a rule in the same container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DequeueableOptions(Attempts):
    """The section, checked.

    Attributes:
        scope: path of the property that scopes the lock, for declarations that name none; None: not set.
        lease: seconds of one lease.
        account_url: the blob service's URL for an identity, perhaps with ``{accountName}`` inside; None: the
            connection's.
    """

    scope: str | None = None
    lease: int = 60
    shortest: int = 10
    longest: int = 120
    retries: int = 3
    container: str = "webjobshost"
    account_url: str | None = None

    def __post_init__(self) -> None:
        if self.shortest >= self.longest:
            raise ConfigurationError(
                f"{SECTION}: MinimumPollingIntervalInSeconds is {self.shortest}, and must be less than "
                f"MaximumPollingIntervalInSeconds, {self.longest}: lower the first or raise the second"
            )


@dataclass(frozen=True, slots=True)
class DequeueableLayout(Layout):
    """See the module."""

    by_host: ClassVar[bool] = False
    foreign: ClassVar[bool] = True

    options: DequeueableOptions

    @property
    def attempts(self) -> Attempts:
        """See ``Layout.attempts`` (D-29 to D-31)."""
        return self.options

    @property
    def fixed_options(self) -> Mapping[str, Any]:
        """Container, lease and polling of the section; only a declaration has a time-out."""
        return {
            "container": self.options.container,
            "lock_period": self.options.lease,
            "lock_acquisition_timeout": None,
            "lock_acquisition_min_polling_interval": 0.1,  # never above the longest, which is a second at least
            "lock_acquisition_polling_interval": self.options.longest,
        }

    def account_url(self, endpoint: str) -> str | None:
        """See ``Layout.account_url``: by ``BlobUriFormat`` (D-19, D-20)."""
        if self.options.account_url is None:
            return None
        name = endpoint.partition("://")[2].partition(".")[0]
        return _ACCOUNT.sub(lambda _: name, self.options.account_url, count=1)

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
        """Return the scope's value as it is (D-18). Refuse a name that no blob can have, or that other layouts have."""
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


def load_dequeueable(settings: Mapping[str, str]) -> DequeueableOptions:
    """Read and check the section in the app settings: ``Dequeueable__Singleton__Scope`` or with ``:``, in any case."""
    values: dict[str, object] = {}
    spellings: dict[str, str] = {}
    for spelt, folded, text in section(settings, SECTION):
        key = _BY_FOLDED_KEY.get(folded)
        if key is None:
            hint = did_you_mean(folded, _KEYS) or f". The keys are {', '.join(_KEYS)}"
            raise ConfigurationError(f"app setting {spelt}: {SECTION} has no key of this name{hint}")
        if key in spellings:
            raise ConfigurationError(f"app setting {spelt} is given twice, also as {spellings[key]}: keep one of them")
        spellings[key] = spelt
        attribute, read = _KEYS[key]
        try:
            values[attribute] = read(text)
        except ConfigurationError as error:
            raise ConfigurationError(f"app setting {spelt} is {quoted(text)}: {error}") from None
    return DequeueableOptions(**values)  # type: ignore[arg-type] # the readers see to it


def _whole(least: int, most: int = _MOST) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text.strip()
        plain = digits.isascii() and digits.removeprefix("-").isdigit() and len(digits) < 20
        if not plain or not least <= int(digits) <= most:
            allowed = f"from {least} to {most}" if most < _MOST else f"of at least {least}"
            raise ConfigurationError(f"it must be a whole number {allowed}")
        return int(digits)

    return read


def _path(text: str) -> str:
    check_path(text)
    return text


def _account_url(text: str) -> str:
    """Return the part before container and blob; in another form no client serves all blobs."""
    uri = text.strip()
    if not uri.casefold().endswith(_URI_TAIL) or not uri.casefold().startswith("https://"):
        raise ConfigurationError("it must begin with https:// and end with /{containerName}/{blobName}")
    return uri[: -len(_URI_TAIL)]


_KEYS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "Scope": ("scope", _path),  # D-2
    "LeaseDurationInSeconds": ("lease", _whole(15, 60)),  # D-3
    "MinimumPollingIntervalInSeconds": ("shortest", _whole(0)),  # D-4
    "MaximumPollingIntervalInSeconds": ("longest", _whole(1)),  # D-5
    "MaxRetries": ("retries", _whole(0, 10)),  # D-7
    "ContainerName": ("container", lambda text: check_container_name(text.strip())),  # D-8
    "BlobUriFormat": ("account_url", _account_url),  # D-8
}
_BY_FOLDED_KEY: Final = {key.casefold(): key for key in _KEYS}
