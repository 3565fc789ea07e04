"""Functions that may be guarded, and how the worker finds them: plain below the trigger, or a builder above it.

The Python worker indexes by signature, decides sync or async by the function itself, and calls with keywords only
(facts §6); so the guarded function is a plain function of the same kind and signature, plus a ``context`` that the
worker fills in and that names the invocation.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
import weakref
from contextvars import ContextVar
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from singleton.base.callables import annotations_of, returns_coroutine, signature_of
from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.words import NO_CLASS, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType

ACTIVITY: Final = "activityTrigger"
MCP_TOOL: Final = "mcpToolTrigger"
QUEUE: Final = "queueTrigger"
TIMER: Final = "timerTrigger"
NAMED: Final = {
    "blobTrigger": "func.InputStream",
    "eventHubTrigger": "func.EventHubEvent",
    "kafkaTrigger": "func.KafkaEvent",
    "queueTrigger": "func.QueueMessage",
    "serviceBusTrigger": "func.ServiceBusMessage",
}
"""The types that have the names which come with a payload: the worker gives text and bytes without them."""
NEVER_NONE: Final = frozenset({"blob", "cosmosDB", "eventGrid", "http", "kafka", "mysql", "queue", "serviceBus", "sql"})
"""Types of output bindings that the worker can't encode None for: as ``$return`` they make a function answer (H-87)."""
WRITTEN_ONE_BY_ONE: Final = ("cosmosDB", "eventGrid", "mysql", "queue", "sql")
"""Types of ``$return`` outputs for which the worker goes through whatever can be iterated."""
GUARDS_MARK: Final = "__singleton__"
"""The attribute of a function with ``@singleton``: the declarations."""
ONCE_MARK: Final = "__once__"
"""The attribute of a function with ``@once``: a function that returns the guard."""
ORDERED_MARK: Final = "__ordered__"
"""The attribute of a function with ``@ordered``: the inbox."""
_HTTP = "httptrigger"
_SPREADS = ".mcp_tool.<locals>"
_ROUTES = ("api_route", "delete", "get", "head", "options", "patch", "post", "put", "route", "websocket")
RETURN: Final = "$return"
"""The name of the output binding that takes a function's return value."""
_CONTEXT = "context"
_REPLAYED = ("orchestrationTrigger", "entityTrigger")
KNOWN: Final = (ACTIVITY, MCP_TOOL, TIMER, "httpTrigger", *NAMED, *NEVER_NONE, *_REPLAYED)
"""The types of bindings that this package asks for."""
_REPLAYERS = ("Orchestrator.create.<locals>.handle", "Entity.create.<locals>.handle")
_REPLAYED_CONTEXTS = ("DurableOrchestrationContext", "DurableEntityContext")
REPLAY: Final = (
    "is a Durable orchestrator or entity: its code runs again at each replay, so it would acquire and release the lock "
    "many times. Put {0} on the activities that it calls, or start the orchestration with start_singleton, so "
    "that one instance runs at a time"
)


def is_builder(target: object) -> bool:
    """Tell whether ``target`` is what a trigger's decorator returns (``azure.functions`` FunctionBuilder)."""
    return callable(getattr(getattr(target, "_function", None), "get_user_function", None))


def user_function(builder: Any) -> Callable[..., Any]:
    """Return the function inside a builder."""
    function: Callable[..., Any] = builder._function.get_user_function()  # noqa: SLF001 - there is no public way
    return function


def replace_user_function(builder: Any, function: Callable[..., Any]) -> None:
    """Put ``function`` in the place of the builder's. Returning it instead would be a silent no-op (facts §6)."""
    builder._function._func = function  # noqa: SLF001


class ToolCall(dict[str, object]):
    """The whole call of an MCP tool, as ``@app.mcp_tool()`` hands it over beside the tool's arguments."""


class Trigger(NamedTuple):
    """A function's trigger.

    Attributes:
        type: such as ``queueTrigger``.
        settings: such as ``queueName``.
        function: the function's name to the Functions host, as far as it is known.
        returns: the type of the output that takes the function's return value, such as ``queue``; None: there is none.
        is_spread: whether ``@app.mcp_tool()`` calls the function, with the arguments of a tool by name.
        on_loop: whether that call is one of a plain ``def`` on the event loop.
        defaults: of a tool's arguments.
    """

    type: str
    parameter: str
    settings: Mapping[str, Any]
    function: str = ""
    returns: str | None = None
    is_spread: bool = False
    on_loop: bool = False
    defaults: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_replayed(self) -> bool:
        """Tell whether the trigger starts a Durable orchestrator or entity: replays run the code again."""
        return self.type in _REPLAYED

    @property
    def may_end_as_none(self) -> bool:
        """Tell whether the worker takes None for the function's return value; otherwise the invocation fails (H-87)."""
        return self.returns not in NEVER_NONE


def trigger_of(builder: Any) -> Trigger | None:
    """Return the builder's trigger; None: not declared yet."""
    return trigger_of_function(builder._function)  # noqa: SLF001


def trigger_of_function(function: Any) -> Trigger | None:
    """Return the trigger of a builder's function; None: not declared yet."""
    trigger = function.get_trigger()
    if trigger is None:
        return None
    name = str(function.get_function_name() or "")
    outputs = (str(binding.type) for binding in function.get_bindings() if binding.name == RETURN)
    called = function.get_user_function()
    spread = _SPREADS in getattr(getattr(called, "__code__", None), "co_qualname", "")
    on_loop = spread and not returns_coroutine(called.__wrapped__)
    parameters = signature_of(inspect.unwrap(called)).parameters if trigger.type == MCP_TOOL else {}
    defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    settings, returns = dict(trigger.get_dict_repr()), next(outputs, None)
    return Trigger(str(trigger.type), str(trigger.name), settings, name, returns, spread, on_loop, defaults)


def find_trigger(function: Callable[..., Any]) -> Trigger | None:
    """Return the trigger of a function that is guarded below its trigger's decorator; None: unknown.

    The decorator comes later and leaves no trace on the function. But in a worker the app has listed its functions. In
    a test the app is nearly always a global of the function's module, or of the app's script.
    """
    found: Trigger | None = None
    users = inspect.unwrap(function)
    script = os.environ.get("PYTHON_SCRIPT_FILE_NAME", "function_app.py").removesuffix(".py")
    for builder in _builders_in(users.__globals__, getattr(sys.modules.get(script), "__dict__", {})):
        if inspect.unwrap(user_function(builder)) is users:
            if found not in (None, trigger_of(builder)):
                return None
            found = trigger_of(builder)
    return found or listed_triggers.get(users)


listed_triggers: Final[weakref.WeakKeyDictionary[Any, Trigger | None]] = weakref.WeakKeyDictionary()
"""The triggers of the guarded functions that an app has listed, by the user's own function."""


def _builders_in(*modules: Mapping[str, Any]) -> Iterator[Any]:
    for container in [value for module in modules for value in [*module.values()]]:
        builders = inspect.getattr_static(container, "_function_builders", None)
        yield from filter(is_builder, builders if isinstance(builders, list) else ())


def is_replayer(function: object) -> bool:
    """Tell whether it is what azure-functions-durable makes of an orchestrator or entity."""
    return getattr(function, "__qualname__", None) in _REPLAYERS


def check_guardable(target: object, decorator: str = "@singleton") -> None:
    """Raise ``ConfigurationError`` for an orchestrator, an entity, or what is no plain function."""
    name = getattr(target, "__qualname__", None) or quoted(target)
    if inspect.isclass(target):
        raise ConfigurationError(f"{decorator} on {name}: it {NO_CLASS}")
    if is_replayer(target):
        raise ConfigurationError(f"{decorator} on {name}: it {REPLAY.format(decorator)}", reason="durable-replay")
    if inspect.isasyncgenfunction(target):
        raise ConfigurationError(
            f"{decorator} on {name}: it is an async generator, which no trigger can run. Return a value"
        )
    if not inspect.isfunction(target):
        raise ConfigurationError(
            f"{decorator} on {name}: it is a {type(target).__name__}; the Functions worker runs plain functions only. "
            "Wrap it in a def or async def"
        )
    if (route := _web_route(target)) is not None:
        raise ConfigurationError(
            f"{decorator} on {name}: {route} makes it a route of a web framework, for which there is no trigger and no "
            "payload. Take the lock in the route: async with locks.lock(f'orders/{id}'), with locks = "
            "AsyncLockClient('AzureWebJobsStorage'), or LockClient in a def"
        )
    with importing:
        from singleton.runtime.late_work import LATE_RESPONSE, declared_late_work

    if (late := declared_late_work(target)) is not None:
        raise ConfigurationError(f"{decorator} on {name}: it {late}", reason=LATE_RESPONSE)
    for annotation in annotations_of(target).values():
        if getattr(annotation, "__name__", str(annotation)).rpartition(".")[2].strip("'\"") in _REPLAYED_CONTEXTS:
            raise ConfigurationError(f"{decorator} on {name}: it {REPLAY.format(decorator)}", reason="durable-replay")


def _web_route(function: Callable[..., Any]) -> str | None:
    """Return the decorator which makes the function a route of FastAPI, Flask or Quart, above a guard or below."""
    found = [each.strip().partition("(")[0].partition(".") for each in _decorators(function)]
    routes = [(app, method) for app, _, method in found if method in _ROUTES]
    frame, file = inspect.currentframe() if routes else None, users_code(function).co_filename
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    names = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    for app, method in routes:
        if any(hasattr(type(names.get(app[1:])), each) for each in ("add_api_route", "add_url_rule")):
            return f"{app}.{method}"
    return None


def users_code(function: Callable[..., Any]) -> CodeType:
    """Return the code that the user wrote, also below decorators of other libraries."""
    code: CodeType = getattr(inspect.unwrap(function), "__code__", None) or function.__code__
    return code


def _stand_where(function: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
    """Give the code of ``wrapper``, two lines long, the file and the line of the user's function.

    The worker takes ``context.function_directory`` from the file of the code that it calls, whatever is wrapped in it.
    A traceback then shows the user's own declaration in place of ours, and debuggers stop there.
    """
    users = users_code(function)
    line = max(users.co_firstlineno - 1, 0)  # of the "def", so that the body is the user's first line
    wrapper.__code__ = wrapper.__code__.replace(co_filename=users.co_filename, co_firstlineno=line)


def refuse_replayed(decorator: str, function: str, arguments: Mapping[str, Any]) -> None:
    """Refuse an orchestrator that the declaration did not recognise: without a ``yield``."""
    for value in arguments.values():
        if type(value).__name__ in _REPLAYED_CONTEXTS:
            raise ConfigurationError(
                f"{decorator} on {function}: it {REPLAY.format(decorator)}", reason="durable-replay"
            )


def refuse_coalescing(target: object, decorator: str) -> None:
    """Refuse ``@once`` and ``@ordered`` above a guard whose invocations leave for one another."""
    if any(guard.on_contention == "coalesce" for guard in getattr(target, GUARDS_MARK, ())):
        raise ConfigurationError(
            f"{decorator} on {getattr(target, '__name__', target)}: on_contention='coalesce' below it ends messages "
            f"without the body, and {decorator} promises the body for each message. Use on_contention='wait', or leave "
            f"{decorator} out",
            reason="coalesce-declared",
        )


def _decorators(function: Callable[..., Any]) -> list[str]:
    """Return the first lines of the function's decorators, as far as there is a source."""
    code = users_code(function)
    above = takewhile(lambda line: "def " not in line, linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :])
    return [line for line in above if line.lstrip().startswith("@")]


def is_http(trigger: Trigger | None, arguments: Mapping[str, Any]) -> bool:
    """Tell whether an HTTP request triggers this invocation; its trigger may be unknown."""
    if trigger is not None:
        return trigger.type.lower() == _HTTP
    return any(hasattr(each, "route_params") or is_streamed_request(each) for each in arguments.values())


def is_streamed_request(value: object) -> bool:
    """Tell whether it is a request of an app with HTTP streams."""
    return hasattr(value, "path_params") and hasattr(value, "query_params")


def invocation_id(context: object) -> str:
    """Return the invocation's id by the worker's context, or where a binding took its name, by the worker for threads.

    The empty text where neither tells: in async functions with a binding called ``context``.
    """
    known = getattr(context, "invocation_id", None)
    if not known:
        variable = getattr(sys.modules.get("azure_functions_runtime"), "invocation_id_cv", None)
        known = variable.get() if isinstance(variable, ContextVar) else None
    return str(known or "")


def tries(context: object) -> tuple[int, bool]:
    """Return how many tries of this delivery failed before, and whether the retry policy allows another one (H-82)."""
    retry = getattr(context, "retry_context", None)
    before, most = getattr(retry, "retry_count", None), getattr(retry, "max_retry_count", None)
    if not isinstance(before, int) or not isinstance(most, int):
        return 0, False
    return before, most < 0 or before < most


Body: TypeAlias = "Callable[[tuple[Any, ...], dict[str, Any]], Callable[[], Any]]"
"""Takes the arguments of a call; returns the function to call, or of an async function to call and await."""


def wrapped(function: Callable[..., Any], body: Body) -> Callable[..., Any]:
    """Return a function which calls ``body(args, kwargs)()``, and looks like ``function`` to the worker."""

    async def guarded_async(*args: Any, **kwargs: Any) -> Any:
        return await body(args, kwargs)()

    def guarded(*args: Any, **kwargs: Any) -> Any:
        return body(args, kwargs)()

    wrapper: Callable[..., Any] = guarded_async if returns_coroutine(function) else guarded
    functools.update_wrapper(wrapper, function)
    _stand_where(function, wrapper)
    return wrapper


class Signature:
    """The signature of a guarded function: the user's, and ``context`` where the user has none of that name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._users = signature_of(function)
        self._adds_context = _CONTEXT not in self._users.parameters
        # ``@app.mcp_tool()`` does not publish a parameter of this type as an argument of the tool.
        self._tool_context = getattr(sys.modules.get("azure.functions"), "MCPToolContext", None)
        self._takes_tool_call = self._adds_context or self._users.parameters[_CONTEXT].annotation is self._tool_context
        kinds = {each.kind for each in self._users.parameters.values()}
        self._names = self._users.parameters.keys() if kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD} else None

    def wrapper(self, function: Callable[..., Any], body: Body) -> Callable[..., Any]:
        """Return ``wrapped(function, body)``, with ``context`` among the parameters."""
        wrapper = wrapped(function, body)
        if self._adds_context:
            parameters = list(self._users.parameters.values())
            context = inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, default=None)
            if self._tool_context is not None:
                context = context.replace(annotation=self._tool_context)
            at = len(parameters) - (bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
            parameters.insert(at, context)
            wrapper.__signature__ = self._users.replace(parameters=parameters)  # type: ignore[attr-defined]
        return wrapper

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Take our ``context`` out of the keywords; return the arguments by name, and the context.

        ``TypeError``: the arguments do not fit the function.
        """
        context = kwargs.pop(_CONTEXT, None) if self._adds_context else None
        if self._names is not None and not args and kwargs.keys() == self._names:  # the worker passes keywords only
            named = {name: kwargs[name] for name in self._names}
        else:
            named = dict(self._users.bind(*args, **kwargs).arguments)
        if not self._adds_context:
            context = named.get(_CONTEXT)
        if self._takes_tool_call and isinstance(context, dict):
            named[_CONTEXT] = ToolCall(context)
        return named, context if hasattr(context, "invocation_id") else None
