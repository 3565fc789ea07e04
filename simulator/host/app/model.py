"""An indexed function: what the Python worker knows of it after it has read the app."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

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
    """One bound parameter, or the return value.

    Attributes:
        name: of the parameter; ``$return`` for the return value.
        binding: the binding's type, such as ``queueTrigger``.
        converter: the type under which the worker converts the value: the binding's, or ``generic`` for text and bytes.
        annotation: what Python says the value is, or None.
        settings: the binding as function.json would show it.
        data_type: 1 text, 2 binary, 3 stream, or None.
        deferred: whether the type is one of the SDK, which only the real host can give.
    """

    name: str
    binding: str
    converter: str
    annotation: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    data_type: int | None = None
    deferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedFunction:
    """One function of the app.

    Attributes:
        name: the function's name in Functions.
        call: the user's function, with its decorators.
        place: file and line for messages, such as ``function_app.py, line 12``.
        directory: folder of the function's file.
        is_async: whether it runs on the worker's event loop rather than in its thread pool.
        wants_context: whether it takes the invocation context.
        trigger: its trigger parameter.
        inputs: its other input parameters by name.
        outputs: its output parameters by name.
        returns: the binding of its return value, or None.
        may_return: whether a value that is not None may be returned.
        retry: its retry policy as the app declares it, or None.
        refused: why the Functions host does not run it, though the worker has indexed it, or None.
    """

    name: str
    call: Callable[..., Any]
    place: str
    directory: str
    is_async: bool
    wants_context: bool
    trigger: Parameter
    inputs: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: Mapping[str, Parameter] = field(default_factory=dict)
    returns: Parameter | None = None
    may_return: bool = False
    retry: Mapping[str, Any] | None = None
    refused: str | None = None

    @property
    def kind(self) -> TriggerKind:
        """What the simulator makes of the trigger: what is "other" is delivered."""
        return _KINDS.get(self.trigger.binding.lower(), "other")

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
