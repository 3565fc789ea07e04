"""The records of an app: its functions as the worker indexes them, the configuration of a host, and errors of both.

Each error keeps a fake host from starting, and its message is one line that says what to do.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


TriggerKind = Literal["timer", "queue", "http", "serviceBus", "other"]

_KINDS: Final[dict[str, TriggerKind]] = {
    "timertrigger": "timer",
    "queuetrigger": "queue",
    "httptrigger": "http",
    "servicebustrigger": "serviceBus",
}
_OF_DURABLE: Final = frozenset({"orchestrationtrigger", "entitytrigger"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One bound parameter, or the return value."""

    name: str  # of the parameter; ``$return`` for the return value
    binding: str  # the binding's type, such as ``queueTrigger``
    converter: str
    """The type under which the worker converts the value: the binding's, or ``generic`` for text and bytes."""
    annotation: Any = None  # what Python says the value is, or None
    settings: Mapping[str, Any] = field(default_factory=dict)  # the binding as function.json would show it
    data_type: int | None = None  # 1 text, 2 binary, 3 stream, or None
    deferred: bool = False  # whether the type is one of the SDK, which only the real host can give


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFunction:
    """One function of the app."""

    name: str
    call: Callable[..., Any]  # the user's function, with its decorators
    place: str  # file and line for messages, such as ``function_app.py, line 12``
    directory: str  # folder of the function's file
    is_async: bool  # whether it runs on the worker's event loop rather than in its thread pool
    wants_context: bool  # whether it takes the invocation context
    trigger: Parameter
    inputs: Mapping[str, Parameter] = field(default_factory=dict)  # its input parameters by name, without the trigger
    outputs: Mapping[str, Parameter] = field(default_factory=dict)
    returns: Parameter | None = None  # the binding of its return value, or None
    may_return: bool = False  # whether a value that is not None may be returned
    retry: Mapping[str, Any] | None = None  # its retry policy as the app declares it, or None
    refused: str | None = None  # why the Functions host does not run it, though the worker has indexed it, or None

    @property
    def kind(self) -> TriggerKind:
        """The kind of the trigger; triggers of kind "other" are delivered."""
        return _KINDS.get(self.trigger.binding.lower(), "other")

    @property
    def bindings(self) -> list[str]:
        """The types of its bindings, such as ``queueTrigger`` and ``blob``."""
        bound = (self.trigger, *self.inputs.values(), *self.outputs.values(), self.returns)
        return [each.binding for each in bound if each is not None]

    @property
    def trigger_label(self) -> str:
        """The trigger's type as journals show it, such as ``timer``, ``queue`` or ``http``."""
        return self.trigger.binding.removesuffix("Trigger")

    @property
    def not_driven(self) -> str | None:
        """Why the simulator never calls this function, or None if it does."""
        if self.refused is not None:
            return self.refused
        if self.trigger.binding.lower() in _OF_DURABLE:
            return f"its {self.trigger.binding} is replayed by the Durable extension, which the simulator has not"
        if self.trigger.deferred:
            return f"its parameter {self.trigger.name!r} asks for an SDK type, which the simulator does not provide"
        for parameter in self.inputs.values():
            return f"its input {parameter.name!r} ({parameter.binding}) is not provided by the simulator"
        return None


STOPPED: Final = 0
FAILED: Final = 1
REFUSED: Final = 3
"""Exit codes of a host's process; 3: a `HostError`."""


class HostError(Exception):
    """The host can't run this app or this configuration. The message names what is wrong and the remedy."""


class AppError(HostError):
    """The app doesn't import, has no functions, or breaks a rule of the Python worker."""


class SettingsError(HostError):
    """An app setting, ``host.json`` or ``local.settings.json`` is missing, malformed or out of range."""


NO_TICKS: Final = "no-ticks"
"""The name of the file, beside the journals of a run, by which the fleet ends the ticks of all timers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The configuration of a host, as the fleet writes it for the start."""

    name: str  # the host's name in the journals
    app: Path  # folder that holds ``function_app.py``
    journal: Path  # file that the host appends to
    storage: str  # connection string of the only storage account that this host may touch
    host_id: str  # its Functions host id (H-1)
    lock_host_id: str  # the host id of the locks; equal on hosts which must exclude each other
    singleton: bool = True  # False runs the guarded bodies without locking
    same_app: bool = False
    """Whether the hosts are instances of one app, so that the platform's own timer lock works among them (W-111)."""
    seed: int = 0  # the seed of the host's random back-off
    timer_every: float = 5.0  # the longest wait for a timer's next tick in seconds; 0 keeps the app's own schedules
    visibility: float = 20.0
    """Seconds for which a received message is invisible, renewed at half time (H-35: the real one is 600)."""
    max_polling_interval: float = 1.0  # upper bound in seconds of the queues' polling interval (H-43)
    bus: str = ""  # URL of the run's message broker; empty if no function needs it
    site: str = ""  # the app's name in Azure; empty: as its settings say
    account: dict[str, str] = field(default_factory=dict)
    """The settings of that account, by what follows the connection's name; empty: ``storage`` says all."""
    parent: int = 0  # id of the process with which the host ends; 0: its parent process

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a connection to the storage account, by what follows the connection's name."""
        return self.account or {"": self.storage}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the JSON file at ``path``, which the fleet has written.

        Raises:
            SettingsError: it can't be read, or is no configuration.
        """
        try:
            raw = json.loads(path.read_text("utf-8"))
            return cls(**{**raw, "app": Path(raw["app"]).resolve(), "journal": Path(raw["journal"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SettingsError(f"can't use the host's configuration {path}: {error!r}") from error
