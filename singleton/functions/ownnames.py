"""Which of a message's own names its body replaces.

The Functions host lets the top-level properties of a JSON object win over what the message itself has, whatever their
case: with a body of ``{"Id": "k"}`` the message's ``id`` is ``k`` (H-80). Null and lists replace nothing, and nothing
does where the trigger asks for bytes. A name that the body has is not trusted, whatever stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ScopeError
from singleton.scopes.json_values import read_json

if TYPE_CHECKING:
    from singleton.functions.triggers import Trigger

_TO_THE_HOST: Final = {
    "id": "id",
    "pop_receipt": "popreceipt",
    "dequeue_count": "dequeuecount",
    "insertion_time": "insertiontime",
    "expiration_time": "expirationtime",
    "time_next_visible": "nextvisibletime",
    "message_id": "messageid",
    "delivery_count": "deliverycount",
}


def is_binary(trigger: Trigger | None) -> bool:
    """Tell whether the trigger asks for bytes: then the host does not look into the body."""
    kind = None if trigger is None else trigger.settings.get("dataType")
    return str(getattr(kind, "name", kind)).upper() in {"BINARY", "STREAM"}


def replaced_names(message: Any, trigger: Trigger | None = None) -> frozenset[str]:
    """Return the attributes of a message that are, or may be, its body's. An unknown trigger may ask for text."""
    body = None if is_binary(trigger) else message.get_body()
    if not isinstance(body, str | bytes):
        return frozenset()
    theirs = _properties(body)
    return frozenset(attribute for attribute, name in _TO_THE_HOST.items() if name in theirs)


def own(message: object, attribute: str, replaced: frozenset[str]) -> Any:
    """Return what the message itself has; None where it has nothing, or its body's stands in the place."""
    return None if attribute in replaced else getattr(message, attribute, None)


def own_id(message: object, *attributes: str, trigger: Trigger | None = None) -> str | None:
    """Return the message's id, by the first of these attributes that has one of its own."""
    given = [name for name in attributes if isinstance(getattr(message, name, None), str)]
    replaced = replaced_names(message, trigger) if given else frozenset()
    return next((found for name in given if (found := own(message, name, replaced))), None)


def _properties(body: str | bytes) -> frozenset[str] | str:
    """Return the names that the body's object has, in lower case; of what only the host may read, the whole text.

    It reads more than JSON: comments, single quotes, names without quotes.
    """
    try:
        read = read_json(body)
    except ScopeError:
        text = (body if isinstance(body, str) else body.decode("utf-8", "replace")).strip().casefold()
        return text if text.startswith("{") and text.endswith("}") else frozenset()
    if not isinstance(read, Mapping):
        return frozenset()
    return frozenset(name.casefold() for name, value in read.items() if not (value is None or isinstance(value, list)))
