"""A small HTTP/1.1 client: each request is sent once, and an answer that is not beyond doubt is none."""

from typing import Final

NOT_SENT: Final = "the request was not sent"
"""A note on a cancellation before the sending of a request. A time-out has the cancellation as its cause."""
