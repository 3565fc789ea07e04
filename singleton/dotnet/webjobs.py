r"""The layout of the WebJobs SDK, with the same blobs: a .NET host of the same host id and a Python one share locks.

    >>> WebJobsLayout().lock("myapp", "Ship", ["42"])
    'locks/myapp/Host.Functions.Ship.42'
    >>> WebJobsLayout("Contoso.Shop.Orders.Ship").lock("myapp", "ship", ["42"])
    'locks/myapp/Contoso.Shop.Orders.Ship.42'
    >>> WebJobsLayout().lock("myapp", "Ship", ["north\\3"], "host")
    'locks/myapp/north/3'

A function of the Functions host, Python's too, is ``Host.Functions.{name}`` to WebJobs; a precompiled one of C# is its
type and method (facts §9, §10), which has to be given. As in WebJobs, an empty scope means the whole function's lock.

Names are not escaped (W-45), so different scopes may mean one lock. A needless wait between the two scopes is the
price of a shared blob in both runtimes. A scope is refused if .NET leases another blob than its own for it: with dots
between slashes, or the primary host's (facts §11). A name that no request can carry fails in .NET; here it is made safe
and ends in a hash (X-8, M-11). Only the owner is written, as WebJobs does (W-57). So holds have no fencing token: the
.NET host would not increase a token.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.invocation import log as _log
from singleton.base.names import has_unsendable
from singleton.base.words import quoted
from singleton.layouts.blob_name import check_parts, hashed_name
from singleton.layouts.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from singleton.base.kinds import Level, Stamp

CONTAINER: Final = "azure-webjobs-hosts"
_TYPE: Final = "Host.Functions"
"""The type into which the Functions host compiles an app's functions (H-12)."""
_PRIMARY: Final = "host"
"""The lock of the host that is the primary of its app, for as long as it lives (H-13)."""
_MOST_CHARACTERS: Final = 1024
_MOST_SEGMENTS: Final = 254
_ARITY: Final = re.compile(r"`[1-9][0-9]*\Z")


class WebJobsLayout(Layout):
    """See the module."""

    foreign: ClassVar[bool] = True
    dotnet: ClassVar[bool] = True

    def __init__(self, dotnet_name: str | None = None) -> None:
        self._dotnet_name = dotnet_name
        self._warned = False

    @property
    def fixed_options(self) -> Mapping[str, Any]:
        """The host's container, whatever ``container`` says (W-45)."""
        return {"container": CONTAINER}

    def lock(
        self, host_id: str, function: str, scopes: Sequence[str], level: Level = "function", *, listener: bool = False
    ) -> str:
        """Return the blob that WebJobs locks (W-28 to W-33, W-45).

        Raises:
            ConfigurationError: as ``blob_name.lock_name``; or WebJobs can't have the host id.
            ScopeError: at level "host" the scope comes to nothing; or .NET's lock of the scope is not its own.
        """
        check_parts(host_id, function, scopes, level)
        if "/" in host_id or "\\" in host_id or not host_id.strip(".") or has_unsendable(host_id):
            raise ConfigurationError(
                f"host id {quoted(host_id)} can't be used with layout='webjobs': it must have from 1 to 32 lower-case "
                "letters, digits and single dashes"
            )
        scope = ".".join(scopes)
        if scopes and not scope:
            self._tell_of_no_scope(function, level)
        named = () if level == "host" else (self._dotnet_name or f"{_TYPE}.{function}",)
        parts = (*named, *filter(None, [scope]), *(["Listener"] if listener else []))
        return _blob_name(f"locks/{host_id}/", ".".join(parts))

    def _tell_of_no_scope(self, function: str, level: Level) -> None:
        if level == "host":
            raise ScopeError(f"the scope of {quoted(function)} is empty: with level 'host' every message needs a value")
        if not self._warned:
            _log.warning(
                "%s: its scope is empty, so it takes the lock of the whole function, as a .NET host does. This warning "
                "comes once",
                function,
            )
        self._warned = True

    def stamp(self, *, listener: bool = False) -> Stamp:
        """See ``Layout.stamp``: a listener's lock has no owner (W-58)."""
        return "none" if listener else "owner"


def check_dotnet_name(name: object) -> None:
    """Refuse all but the full name of a .NET method: ``Namespace.Type.Method``, ``+`` before nested types.

    A generic type has its type arguments behind it, in brackets, as ``Type.FullName`` has them (facts §11).
    """
    if isinstance(name, str):
        types, _, method = name.rpartition(".")
        types, bracket, arguments = types.partition("[[")
        parts = re.split(r"[.+]", types)
        generic = any(_ARITY.search(part) for part in parts)
        closed = bool(bracket) and arguments.endswith("]]") and not has_unsendable(arguments)
        if method.isidentifier() and all(_ARITY.sub("", part).isidentifier() for part in parts) and generic == closed:
            return
    raise ConfigurationError(
        f"dotnet_name is {quoted(name)}: give the full name of the C# method, its namespace, type and name, such "
        "as 'Contoso.Shop.Orders.Ship' or, in a nested type, 'Contoso.Shop.Orders+Jobs.Ship'. Of a generic type copy "
        "the name from the container, with `1[[…]]"
    )


def _blob_name(folder: str, lock_id: str) -> str:
    r"""Return the name as .NET's client sends it, without slashes at its end, and as the service reads ``\`` in it."""
    name = (folder + lock_id).rstrip("/").replace("\\", "/")
    segments = name.split("/")
    if len(name) > _MOST_CHARACTERS or len(segments) > _MOST_SEGMENTS or has_unsendable(name):
        return hashed_name(folder, lock_id)
    plain = name.rstrip("/.")  # the service may drop these
    if len(name.rstrip("/")) <= len(folder) or plain == folder + _PRIMARY or not {".", ".."}.isdisjoint(segments):
        raise ScopeError(
            f"layout='webjobs': the lock {quoted(lock_id)} can't be shared, because .NET leases the blob of another "
            "lock, of a folder, or of its primary host for it. Send a value without . and .. between slashes, and not "
            f"{quoted(_PRIMARY)}",
            reason="name",
        )
    return name
