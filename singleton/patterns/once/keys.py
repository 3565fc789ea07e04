"""The keys of operations, and the names of their locks: ``once/{host id}/{function}/{key}``, ``once/{name}/{key}``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from singleton.base.callables import refuse_async
from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import importing
from singleton.base.json_values import check_path
from singleton.base.tasks import decided
from singleton.base.words import called, check_arity, quoted
from singleton.layouts.blob_name import encoded, safe_name
from singleton.scopes.template import ScopeTemplate, filled_text, value_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.functions.triggers import Trigger

GivenKey: TypeAlias = str | Callable[[Any], object]
"""The key of ``@once``: a property's path, a template, or a function that is given the trigger's argument."""

_FOLDER: Final = "once"


def once_name(*parts: str) -> str:
    """Return the name of an operation's lock; different parts have different names.

    >>> once_name("app", "charge", "order/42")
    'once/app/charge/order%2F42'
    """
    return safe_name("/".join((_FOLDER, *map(encoded, parts))))


class Key:
    """The key of a declaration: a property's path, a template, or a function of the trigger's argument.

    Attributes:
        template: the key as a template, if it is one.
        of: returns the key of an invocation by its arguments and trigger; ``ScopeError``: the payload names no key.
    """

    def __init__(self, given: object) -> None:
        self.given = given
        self.template: ScopeTemplate | None = None
        self.of: Callable[[Mapping[str, Any], Trigger | None], str]
        refuse_async(given, "key")
        if callable(given):
            check_arity("key", given, "the trigger's argument alone", ", such as `lambda req: ...`")
            self.of = partial(_called, given)
        elif not isinstance(given, str) or not given.strip():
            raise ConfigurationError(f"key is {quoted(given)}: give one such as 'Id' or '{{headers.Idempotency-Key}}'")
        elif "{" in given or "%" in given:
            template = ScopeTemplate(given, named="key", needs_values=True)
            if "{" not in given.replace("{{", "") and "%" not in given:
                raise ConfigurationError(
                    f"key is {quoted(given)}, the same for all messages: name a {{property}} in it"
                )
            self.of, self.template = partial(_filled, template), template
        else:
            check_path(given, "key")
            self.of = partial(_at, given)


def _called(function: Callable[[Any], object], arguments: Mapping[str, Any], trigger: Trigger | None) -> str:
    with importing:
        from singleton.functions.payload import triggers_parameter

    name = f"key {called(function)}"
    argument = arguments.get(triggers_parameter(arguments, trigger, of_any_kind=True) or "")
    return filled_text(decided(name, partial(function, argument)), f"{name}: what it returned")


def _filled(template: ScopeTemplate, arguments: Mapping[str, Any], trigger: Trigger | None) -> str:
    with importing:
        from singleton.functions.payload import BindingData, find_payload

    return template.bind(os.environ, BindingData(lambda: find_payload(arguments, trigger)))


def _at(path: str, arguments: Mapping[str, Any], trigger: Trigger | None) -> str:
    with importing:
        from singleton.functions.payload import find_payload

    payload = find_payload(arguments, trigger)
    if payload is None:
        raise ScopeError(
            f"key {path!r}: there is no parameter with a payload to look it up in; a timer has none",
            reason="no payload",
        )
    return value_at(path, payload.read(), named="key")
