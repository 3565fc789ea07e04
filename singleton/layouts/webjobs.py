r"""The layout of the WebJobs SDK, blob for blob: a .NET host of the same host id and ours exclude one another.

    >>> WebJobsLayout().lock("myapp", "Ship", ["42"])
    'locks/myapp/Host.Functions.Ship.42'
    >>> WebJobsLayout().lock("myapp", "Ship", ["north\\3"], "host")
    'locks/myapp/north/3'

Names are not escaped (W-45), so different scopes may mean one lock; that one waits for the other, more than it must,
is the price of the same blob in both runtimes. A name that would leave its folder, that no request can carry, or
that is always taken has no counterpart in .NET: it is made safe and ends in a hash (X-8, M-11). The owner is written as
WebJobs does, and nothing else (W-57), so holds have no fencing token: the .NET host would not count it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from singleton.base.errors import ConfigurationError
from singleton.base.names import has_unsendable
from singleton.base.words import quoted
from singleton.layouts.layout import Layout
from singleton.layouts.naming import check_parts, hashed_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from singleton.base.kinds import Level, Stamp
    from singleton.settings.options import SingletonOptions

CONTAINER: Final = "azure-webjobs-hosts"
_TYPE: Final = "Host.Functions"
"""The type into which the Functions host compiles an app's functions (H-12)."""
_PRIMARY: Final = "host"
"""The lock of the host that is the primary of its app, for as long as it lives (H-13)."""
_MOST_CHARACTERS: Final = 1024
_MOST_SEGMENTS: Final = 254


class WebJobsLayout(Layout):
    """See the module."""

    of_the_host: ClassVar[bool] = True

    def adapted(self, options: SingletonOptions) -> SingletonOptions:
        """See ``Layout.adapted``: the host's container, whatever ``container`` says (W-45)."""
        return options.replace(container=CONTAINER)

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """Return the blob that WebJobs locks (W-28 to W-33, W-45).

        Raises:
            ConfigurationError, ScopeError: as ``naming.lock_name``; or the host id is none that WebJobs can have.
        """
        check_parts(host_id, function, scopes, level)
        if "/" in host_id or "\\" in host_id or not host_id.strip(".") or has_unsendable(host_id):
            raise ConfigurationError(
                f"host id {quoted(host_id)} names no folder of its own: WebJobs has lower-case letters, digits and "
                "single dashes in it, 32 at most"
            )
        named = [*scopes] if level == "host" else [f"{_TYPE}.{function}", *scopes]
        return _blob_name(f"locks/{host_id}/", ".".join([*named, "Listener"] if listener else named))

    def stamp(self, *, listener: bool = False) -> Stamp:
        """See ``Layout.stamp``: a listener's lock has no owner (W-58)."""
        return "none" if listener else "owner"


def _blob_name(folder: str, lock_id: str) -> str:
    r"""Return the name as .NET's client sends it, without slashes at its end, and as the service reads ``\`` in it."""
    name = (folder + lock_id).rstrip("/").replace("\\", "/")
    return name if _stays(name, folder) else hashed_name(folder, lock_id)


def _stays(name: str, folder: str) -> bool:
    """Tell whether the service keeps this name in its folder, as a lock's; dots and slashes at its end it may drop."""
    segments = name.split("/")
    return (
        len(name) <= _MOST_CHARACTERS
        and len(segments) <= _MOST_SEGMENTS
        and len(name.rstrip("/.")) > len(folder)
        and name.rstrip("/.") != folder + _PRIMARY
        and not any(segment and not segment.strip(".") for segment in segments)
        and not has_unsendable(name)
    )
