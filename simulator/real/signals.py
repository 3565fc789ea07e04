"""Ctrl-C and other signals: they end a run at once, but never in the middle of a step that must not stay half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupt(KeyboardInterrupt):
    """The run must end now. It is raised in the main thread, wherever that is."""


class Signals:
    """A context in which a signal interrupts the run once. When the run is closing, signals only make it hurry."""

    def __init__(self) -> None:
        """Prepare; signals still do what they did."""
        self._before: dict[signal.Signals, Any] = {}
        self._closed = 0
        self._pending = False
        self.received: list[int] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in NAMES:
                number = getattr(signal, name, None)
                if number is not None:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code that a shell expects after such a signal."""
        return 128 + self.received[0] if self.received else 0

    def hurry(self) -> bool:
        """Tell whether somebody asked again."""
        return len(self.received) > 1

    def close(self) -> None:
        """From now on signals interrupt nothing any more."""
        self._closed += 1

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold signals back until the end of a step."""
        self._closed += 1
        try:
            yield
        finally:
            self._closed -= 1
        if self._pending and not self._closed:
            self._pending = False
            self.close()
            raise Interrupt

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        if self._closed:
            self._pending = True
        elif len(self.received) == 1:
            self.close()
            raise Interrupt
