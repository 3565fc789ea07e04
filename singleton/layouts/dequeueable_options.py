"""Dequeueable's options for singletons: the section ``Dequeueable:Singleton`` of the app settings (D-1 to D-8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.appsettings import section
from singleton.base.errors import ConfigurationError
from singleton.base.names import check_container_name
from singleton.base.words import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECTION: Final = "Dequeueable:Singleton"
_URI_TAIL: Final = "/{containername}/{blobname}"
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DequeueableOptions:
    """The section, checked.

    Attributes:
        scope: path of the property that scopes the lock, for declarations that name none; None: not set.
        lease: seconds of one lease.
        shortest: seconds of the first delay between two attempts.
        longest: the most seconds of a delay.
        retries: attempts after the first.
        container: the blob container that has the locks.
        account_url: the blob service's URL for an identity, perhaps with ``{accountName}`` in it; None: the
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


def load_dequeueable(settings: Mapping[str, str]) -> DequeueableOptions:
    """Read the section from the app settings: ``Dequeueable__Singleton__Scope`` or with ``:``, whatever its case.

    Raises:
        ConfigurationError: a key is unknown or given twice, or a value is not allowed.
    """
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
    from singleton.scopes.scope import check_path

    check_path(text)
    return text


def _container(text: str) -> str:
    return check_container_name(text.strip())


def _account_url(text: str) -> str:
    """Return what stands before container and blob; another form can't be one client for all blobs."""
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
    "ContainerName": ("container", _container),  # D-8
    "BlobUriFormat": ("account_url", _account_url),  # D-8
}
_BY_FOLDED_KEY: Final = {key.casefold(): key for key in _KEYS}
