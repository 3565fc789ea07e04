"""HTTP answers, of the kind that the app's requests ask for.

An app with HTTP streams gets FastAPI's requests, and answers with a response of Starlette's, the library below FastAPI.
The worker takes ``func.HttpResponse`` for other requests only. Neither library need be installed: an answer is made
by the library from which the request came.
"""

from __future__ import annotations

import base64
import importlib
from typing import TYPE_CHECKING, Any

from singleton.base.forks import importing
from singleton.functions.triggers import is_streamed_request

if TYPE_CHECKING:
    from collections.abc import Mapping


def conflict_answer(arguments: Mapping[str, Any], text: str) -> Any:
    """Return a 409 for the request among an invocation's arguments."""
    streamed = any(map(is_streamed_request, arguments.values()))
    package, name = ("starlette.responses", "PlainTextResponse") if streamed else ("azure.functions", "HttpResponse")
    return _class_of(package, name)(text, status_code=409, headers={"Retry-After": "1"})


def encoded_answer(value: Any) -> dict[str, Any] | None:
    """Return an answer as JSON; None: the value is no answer, or is sent piece by piece."""
    if not hasattr(value, "status_code"):
        return None
    if callable(getattr(value, "get_body", None)):
        return {
            "status": int(value.status_code),
            "headers": [[name, text] for name, text in value.headers.items()],
            "mimetype": value.mimetype,
            "charset": value.charset,
            "body": base64.b64encode(value.get_body()).decode(),
        }
    if hasattr(value, "raw_headers") and isinstance(getattr(value, "body", None), bytes | memoryview):
        return {
            "status": int(value.status_code),
            "raw": [[name.decode("latin-1"), text.decode("latin-1")] for name, text in value.raw_headers],
            "content": base64.b64encode(value.body).decode(),  # no "body", which older versions take for theirs
        }
    return None


def decoded_answer(kept: Mapping[str, Any]) -> Any:
    """Return the answer that was encoded."""
    if "content" in kept:
        streamed = _class_of("starlette.responses", "Response")(
            base64.b64decode(kept["content"]), status_code=kept["status"]
        )
        streamed.raw_headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in kept["raw"]]
        return streamed
    made = _class_of("azure.functions", "HttpResponse")(
        base64.b64decode(kept["body"]),
        status_code=kept["status"],
        mimetype=kept["mimetype"],
        charset=kept["charset"],
    )
    for name, text in kept["headers"]:
        made.headers.add_header(name, text)
    return made


def _class_of(package: str, name: str) -> Any:
    with importing:
        return getattr(importlib.import_module(package), name)
