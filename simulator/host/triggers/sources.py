"""Where the work of a function comes from that is neither on a timer nor on a storage queue: HTTP, Service Bus, others.

HTTP and Service Bus are simulated by their rules. Other sources have no rules here: the user's messages are
delivered as they are, at least once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.host.app.app_model import SettingsError
from simulator.host.app.settings import is_set, resolve
from singleton.base.words import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.host.app.app_model import IndexedFunction, Parameter

DeliveryWay = Literal["simulated", "delivered"]
BATCHES: Final = frozenset({"cosmosdbtrigger", "sqltrigger", "mysqltrigger"})
"""Triggers that deliver lists, whatever they say of their cardinality."""
_SERVICE_BUS: Final = "servicebus"
_BLOB: Final = "blobtrigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a function's work comes from.

    Attributes:
        name: equal for functions that share it: ``http/FUNCTION``, ``servicebus/QUEUE``, ``servicebus/TOPIC/SUB…``,
            and for others the trigger and the function.
        how: by the trigger's own rules, or only delivered.
        route: the template of an HTTP trigger; None for others.
        methods: that it allows, in capitals; none means all.
        sessions: whether messages of one session come in order, one at a time.
        many: whether one delivery is a batch.
        path: of a blob trigger: which blobs it takes; "" for others.
    """

    name: str
    how: DeliveryWay
    route: str | None = None
    methods: tuple[str, ...] = ()
    sessions: bool = False
    many: bool = False
    path: str = ""

    @property
    def is_http(self) -> bool:
        """Whether callers ask for it, and wait for an answer."""
        return self.route is not None

    def told(self) -> dict[str, Any]:
        """Return what the journal and ``--describe`` tell of it."""
        if self.is_http:
            return {"source": self.name, "how": self.how, "route": self.route, "methods": list(self.methods)}
        kinds = {"sessions": self.sessions, "many": self.many}
        where = {"path": self.path} if self.path else {}
        return {"source": self.name, "how": self.how, "queue": self.name, **kinds, **where}


def source_of(function: IndexedFunction, settings: Mapping[str, str]) -> Source:
    """Return where the work of a function comes from that is on neither a timer nor a storage queue.

    Raises:
        SettingsError: a ``%NAME%`` of its trigger has no value, or its connection has no setting.
    """
    trigger = function.trigger
    _check_connection(trigger, settings)
    match function.kind:
        case "http":
            return _http(function, settings)
        case "serviceBus" if not is_batch(trigger):
            return Source(
                name=_entity(trigger, settings),
                how="simulated",
                sessions=_says(trigger, "isSessionsEnabled", "true"),
            )
        case _:
            name = f"{function.trigger_label}/{function.name}"
            path = _path(trigger, settings)
            sessions = function.kind == "serviceBus" and _says(trigger, "isSessionsEnabled", "true")
            return Source(name=name, how="delivered", sessions=sessions, many=is_batch(trigger), path=path)


def is_batch(trigger: Parameter) -> bool:
    """Tell whether one invocation gets a list: the trigger always delivers one, or is asked to."""
    return trigger.binding.lower() in BATCHES or _says(trigger, "cardinality", "many")


def _http(function: IndexedFunction, settings: Mapping[str, str]) -> Source:
    route = function.trigger.settings.get("route")
    methods = function.trigger.settings.get("methods") or ()
    names = tuple(str(getattr(method, "value", method)).upper() for method in methods)
    text = function.name if route is None else resolve(str(route), settings, "its route")
    return Source(name=f"http/{function.name}", how="simulated", route=text or function.name, methods=names)


def _path(trigger: Parameter, settings: Mapping[str, str]) -> str:
    if trigger.binding.lower() != _BLOB:
        return ""
    return resolve(str(trigger.settings.get("path") or ""), settings, "its path").strip("/")


def _entity(trigger: Parameter, settings: Mapping[str, str]) -> str:
    """Return the name of a queue or a subscription; upper and lower case are one to Service Bus."""

    def named(key: str) -> str:
        name = resolve(str(trigger.settings.get(key) or ""), settings, f"its {key}").strip().lower()
        if not name:
            raise SettingsError(f"its {key} is empty")
        return name

    if trigger.settings.get("queueName") is not None:
        return f"{_SERVICE_BUS}/{named('queueName')}"
    return f"{_SERVICE_BUS}/{named('topicName')}/{named('subscriptionName')}"


def _check_connection(trigger: Parameter, settings: Mapping[str, str]) -> None:
    """See whether a trigger's connection is set: without it the host does not run the function (H-86)."""
    connection = trigger.settings.get("connection") or trigger.settings.get("connectionStringSetting")
    if not isinstance(connection, str):
        return
    name = resolve(connection, settings, "its connection")
    if not is_set(settings, name):
        raise SettingsError(
            f"there is no setting for its connection {quoted(name)}, so Azure does not run it either: add it to "
            "local.settings.json or to the environment; any value does here, as nothing connects there"
            f"{did_you_mean(name, settings)}"
        )


def _says(trigger: Parameter, key: str, value: str) -> bool:
    found = trigger.settings.get(key)
    return str(getattr(found, "value", found)).strip().lower() == value
