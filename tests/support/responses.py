"""Responses of the kinds that Starlette, sse-starlette, Django and Flask have, without these, and an output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable


async def iterate_in_threadpool(items: Iterable[Any]) -> AsyncIterator[Any]:
    """Go through a plain iterable: Starlette does so in threads."""
    for item in items:
        yield item


class Response:
    __module__ = "starlette.responses"

    def __init__(self, content: Any = None, background: Any = None) -> None:
        self.content = content
        self.background = background


class JSONResponse(Response):
    __module__ = "starlette.responses"


class StreamingResponse(Response):
    __module__ = "starlette.responses"

    def __init__(self, content: Any, background: Any = None) -> None:
        super().__init__(None, background)
        self.body_iterator = content if hasattr(content, "__aiter__") else iterate_in_threadpool(content)

    async def __call__(self) -> list[Any]:
        """Send the content, as a server does after the endpoint."""
        return [chunk async for chunk in self.body_iterator]


class EventSourceResponse(Response):
    __module__ = "sse_starlette.sse"

    def __init__(self, content: Any) -> None:
        super().__init__()
        self.body_iterator = content


class BackgroundTask:
    __module__ = "starlette.background"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class BackgroundTasks(BackgroundTask):
    __module__ = "starlette.background"

    def __init__(self, *functions: Callable[..., Any]) -> None:
        self.tasks = [BackgroundTask(each) for each in functions]


class StreamingHttpResponse:
    __module__ = "django.http.response"

    def __init__(self, content: Iterable[Any]) -> None:
        self.streaming_content = map(str, content)


class FlaskResponse:
    __module__ = "werkzeug.wrappers.response"

    def __init__(self, response: Any) -> None:
        self.response = response


class Out:
    """An output binding, as the worker's."""

    def __init__(self) -> None:
        self.value: Any = None

    def set(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value
