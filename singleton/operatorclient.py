"""What a lock client offers to operators: names of functions' locks, the list of all locks, breaks, lifted epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.clients.baseclient import BaseClient
from singleton.settings.durations import Limits, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.base.kinds import Level, Seconds
    from singleton.operating.breaking import Broken
    from singleton.operating.lifting import Lifted
    from singleton.operating.listing import Met, Wanted
    from singleton.process.onthread import Work
    from singleton.process.registry import Registry
    from singleton.stores.lock_keeping import Page

_NOTICE = Limits(maximum=60, note=", or None to let the rest of the lease run out")


class OperatorClient(BaseClient):
    """A lock client that can do what an operator does. Nothing of it is imported before it is used."""

    def lock_name(
        self,
        function: str,
        scope: str | Iterable[str] = (),
        *,
        level: Level = "function",
        listener: bool = False,
        scope_hash: bool = False,
        limit: int | None = None,
    ) -> str:
        """Return the name of the lock that ``@singleton`` takes for invocations of a function with this scope.

        The app is that of the client's option ``host_id``, or else the one whose settings and host.json are found here,
        as the Functions host finds them. Elsewhere give ``SingletonOptions(host_id=…)``. If nothing here gives the id,
        it is made of this machine's name, which no app in Azure has, and a warning is logged. In the container
        ``azure-webjobs-hosts`` the name is that of ``layout="webjobs"``.

        Args:
            function: the function's name; if it is declared with ``name``, that name.
            scope: the text of the scope's value, or of its values in order; none for a function without a scope.
            level: ``"host"`` for the lock that functions share.
            listener: for the lock of ``mode="listener"``.
            scope_hash: for a function that is declared with ``scope_hash=True``.
            limit: for a function that is declared with it. Then the result is the name of a semaphore; its blobs are
                that name with ``/slot-0``, ``/slot-1`` and so on.

        Raises:
            ConfigurationError, ScopeError: no lock can have such a name.
        """
        from singleton.operating.naming import app_id, name_in, scope_values, warn_of_machine

        scopes = scope_values(scope)
        app, container = app_id(self._options), self._place.container
        warn_of_machine(app, self._options)
        return name_in(container, app, function, scopes, level, listener=listener, scope_hash=scope_hash, limit=limit)

    def _break(self, name: str, notice: Seconds | None) -> Work[Broken | None]:
        from singleton.operating.breaking import break_hold

        address = self._address(name)
        warning = None if notice is None else _NOTICE.check(notice, "notice")
        return self._through(
            name, lambda registry: break_hold(registry.store(address.place), name, warning, address.place.container)
        )

    def _lift(self, function: str | None, *, dry_run: bool) -> Work[Lifted]:
        from singleton.operating.lifting import Lift
        from singleton.operating.unknown import warn_of_function

        place = self._place

        async def lift(registry: Registry) -> Lifted:
            going = Lift(registry.store(place), place.container, function=function, dry_run=dry_run)
            while await going.go_on():
                pass
            if going.functions:
                warn_of_function(place.container, function, going.functions)
            return going.result

        return self._through(place.container, lift)

    def _page(self, prefix: str, marker: str | None) -> Work[Page]:
        from singleton.operating.keeping import keeping_of
        from singleton.operating.listing import next_page

        place = self._place
        return self._through(
            prefix or place.container,
            lambda registry: next_page(keeping_of(registry.store(place)), place.container, prefix, marker),
        )

    def _nothing(self, met: Met, function: str | None, prefix: str) -> Work[None]:
        """Warn if a complete listing has nothing of what was asked for, though there are other locks."""
        from singleton.operating.keeping import keeping_of
        from singleton.operating.unknown import warn_of_nothing

        place = self._place
        return self._through(
            prefix or place.container,
            lambda registry: warn_of_nothing(keeping_of(registry.store(place)), place.container, met, function, prefix),
        )


def is_nothing(met: Met, function: str | None, prefix: str) -> bool:
    """Tell whether a complete listing has nothing of what was asked for."""
    return bool(prefix and not met.locks) or (function is not None and function not in met.functions)


def newly_met() -> Met:
    """Return what a listing begins with."""
    from singleton.operating.listing import Met

    return Met()


def checked_wanted(function: str | None, *, held: bool, older_than: Seconds | None) -> Wanted:
    """Return which locks are asked for."""
    from singleton.operating.listing import Wanted

    age = None if older_than is None else seconds(older_than, "older_than")
    return Wanted(function=function, held=held, older_than=age)
