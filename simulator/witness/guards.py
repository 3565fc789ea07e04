"""Compare the calls of a guard with the calls of the function below the guard: arguments, results, outputs, ends.

The function below is the user's body, or a decorator of the user's own. A change which a decorator of the user's own
makes lies between other functions, and is not compared. A difference is written as ``altered``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from simulator.history.value_digest import NOTHING, digest
from simulator.witness.code_watch import signature_of
from simulator.witness.value_form import (
    Form,
    Yielded,
    form_of,
    is_delivered,
    is_lazy,
    is_output,
    kept_digest,
    noted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import CodeType

    from simulator.history.journal import Write


@dataclass(frozen=True, kw_only=True)
class GuardedFunction:
    """A guard and the function below the guard. ``keeps``: the guard may answer with a kept result, as `@once` does.

    ``sends_again``: such an answer sets the outputs as the first invocation did.
    """

    name: str
    guard: Any
    below: Any
    keeps: bool = False
    sends_again: bool = True


@dataclass(eq=False)
class _Given:
    """A value at one moment. ``turn``: the number of what had begun or ended; None if code of the app's ran then."""

    value: object
    form: Form
    turn: int | None = None


@dataclass(eq=False, kw_only=True)
class _GuardRun:
    guarded: GuardedFunction
    below: CodeType
    invocation: str
    before: _GuardRun | None
    given: dict[str, Any]
    delivered: bool  # whether the trigger's value is among these
    got: Mapping[str, Any] = field(default_factory=dict)  # what the function below was given
    forms: dict[str, Form]  # of values of this invocation alone, which other code of the app can't change
    outputs: dict[str, _Given] = field(default_factory=dict)  # at the begin, or as the function below left them
    unset: dict[str, Any] = field(default_factory=dict)  # the outputs that nobody had set at the begin
    result: _Given | None = None
    error: BaseException | None = None  # of the function below
    ran: bool = False
    hold: Any = None  # that the function below saw as it ended
    began: float = field(default_factory=time.monotonic)
    running: int = 0  # how often the function below runs now
    over: bool = False


_NOTHING: Final = Form("nothing", "at all", plain=True)
_FIRST: Final = 1.0
"""Seconds in which a first call may import what a guard needs."""
_BUSY: Final = 409
_around: ContextVar[_GuardRun | None] = ContextVar("simulated_guard", default=None)
"""The guard whose function below runs next; None inside that function."""


class GuardWatcher:
    """Sees guards and the functions below.

    ``trigger``: returns the value of the trigger of an invocation, if known. ``left_running``: tells whether bodies
    have left something running.
    """

    def __init__(
        self,
        write: Write,
        invocation: Callable[[], str],
        trigger: Callable[[str], object],
        left_running: Callable[[], bool],
        hold: Callable[[], Any] | None,
    ) -> None:
        self._write = write
        self._invocation = invocation
        self._trigger = trigger
        self._left_running = left_running
        self._hold = hold
        self._guards: dict[int, tuple[GuardedFunction, CodeType]] = {}  # by the id of its code; with the code below
        self._guard_runs: dict[object, _GuardRun] = {}
        self._below_runs: dict[object, _GuardRun] = {}
        self._running: set[object] = set()  # all code of the app's that is watched
        self._turn = 0

    def asks_late(self) -> float:
        """Return for how many seconds the guard that runs here has not asked for its lock, beyond the first second."""
        around = _around.get()
        return 0.0 if around is None else round(max(time.monotonic() - around.began - _FIRST, 0.0), 3)

    def given(self) -> Mapping[str, Any]:
        """Return the arguments of the guard that runs here."""
        around = _around.get()
        return {} if around is None else around.given

    def add(self, guards: Iterable[GuardedFunction], codes: Mapping[Any, CodeType]) -> None:
        """Know these guards. ``codes``: what stands for a watched function in reports."""
        self._guards |= {id(codes[each.guard]): (each, codes[each.below]) for each in guards}

    def entered(self, code: CodeType, run: object, arguments: Mapping[str, Any]) -> None:
        """See a guard, or other code, begin."""
        self._turn += 1
        around = _around.get()
        if around is not None and around.below is code:
            self._below_runs[run] = around
            self._begin(around, _named(code, arguments, around.guarded.below))
        if id(code) not in self._guards:
            self._running.add(run)
            _around.set(None)
            return
        guarded, below = self._guards[id(code)]
        given = _named(code, arguments, guarded.below)
        trigger = self._trigger(invocation := self._invocation())
        forms = {
            name: form
            for name, value in given.items()
            if (known := is_delivered(value)) or value is trigger
            if (form := form_of(value)).plain or known
        }
        about: dict[str, Any] = {"guarded": guarded, "below": below, "invocation": invocation, "before": around}
        about["delivered"] = trigger is not None and any(value is trigger for value in given.values())
        self._guard_runs[run] = made = _GuardRun(**about, given=given, forms=forms)
        made.outputs = self._outputs(given)
        made.unset = {name: given[name] for name, each in made.outputs.items() if each.value is None}
        _around.set(made)

    def left(self, _: CodeType, run: object, value: object, error: BaseException | None) -> None:
        """See it end."""
        self._running.discard(run)
        if (ended := self._guard_runs.pop(run, None)) is not None:
            ended.over = True
            _around.set(ended.before)
            self._end(ended, value, error)
            self._tell_kept(ended, "once_answered", value, error)
            self._tell_unrun(ended, error)
            self._tell_kept_on(ended)
            self._turn += 1
        if (around := self._below_runs.pop(run, None)) is not None:
            _around.set(around)
            around.running -= 1
            around.result, around.error = self._seen(value), error
            with suppress(RuntimeError):  # there is none
                around.hold = self._hold() if self._hold else None
            around.outputs |= self._outputs(around.got)
            if error is None and not around.guarded.keeps:
                around.outputs |= self._iterated(around.got)
            self._tell_kept(around, "once_kept", value, error)

    def _begin(self, around: _GuardRun, got: Mapping[str, Any]) -> None:
        around.ran, around.got = True, got
        around.running += 1
        if around.over:
            self._tell(around, "early")
        for name, asked in around.given.items():
            value, known = got.get(name, _NOTHING), around.forms.get(name)
            if value is not asked or known is not None:
                before, now = known or form_of(asked), _NOTHING if value is _NOTHING else form_of(value)
                if before != now:
                    self._tell(around, "argument", name, before, now)

    def _end(self, run: _GuardRun, value: object, error: BaseException | None) -> None:
        """Compare how a guard ends with how the function below ended, whose items may fail only under the guard."""
        seen = [each.value for each in (run.result, *run.outputs.values()) if each is not None]
        failure = next((each.error for each in seen if isinstance(each, Yielded) and each.error is not None), None)
        if failure is not None:
            run.error = failure
            about = {"invocation": run.invocation, "function": run.guarded.name}
            self._write("items_failed", **about, error=type(failure).__name__)
        if run.running:
            self._tell(run, "early")
        elif run.error is not None or error is not None:
            self._end_badly(run, error)
        elif run.ran or not run.guarded.keeps:
            if run.result is not None:
                self._compare(run, "result", "", run.result, value)
            elif value is not None and getattr(value, "status_code", None) != _BUSY:
                self._tell(run, "answer", "", form_of(value))
            elif value is not None:
                self._refuse(run, value)
            for name, output in run.outputs.items():
                self._compare(run, "output", name, output, run.given[name].get())
        elif hasattr(value, "status_code"):  # or it is a kept answer
            self._refuse(run, value)

    def _refuse(self, run: _GuardRun, answer: Any) -> None:
        """Tell of an answer that does not send its caller away for a while."""
        if answer.status_code != _BUSY or "Retry-After" not in answer.headers:
            self._tell(run, "refusal", "", form_of(answer))

    def _end_badly(self, run: _GuardRun, error: BaseException | None) -> None:
        given = run.result
        if error is None:
            self._tell(run, "swallowed", type(run.error).__name__)
        elif run.error is None and given is not None and isinstance(error, Exception):
            if type(error).__module__.partition(".")[0] != "singleton":
                self._tell(run, "failed", type(error).__name__)
            elif type(error).__name__ == "ConfigurationError" and given.form.plain and type(given.value) is not Yielded:
                self._tell(run, "refused", "", given.form)

    def _compare(self, run: _GuardRun, kind: str, name: str, given: _Given, now: object) -> None:
        """Tell if ``now`` is not what was given; what is iterated over may have become a list."""
        value, form, got, sure = given.value, given.form, form_of(now), True
        if isinstance(value, Yielded):
            form = form_of([*value])
            same = isinstance(now, Yielded) or is_lazy(now) or (value.ended and form == got)
        elif value is now:  # changed since, by the guard or by who else has it
            same = form == got or not form.plain
            sure = given.turn == self._turn and not self._running and not self._left_running()
        else:
            unclear = run.guarded.keeps or type(now) is list or hasattr(type(value), "__await__")
            same = form == got or (unclear and not (form.plain and got.plain))
        if not same:
            self._tell(run, kind, name, form, got, sure=sure)

    def _outputs(self, values: Mapping[str, Any]) -> dict[str, _Given]:
        return {name: self._seen(each.get()) for name, each in values.items() if is_output(each)}

    def _iterated(self, values: Mapping[str, Any]) -> dict[str, _Given]:
        """Note the items of the iterators in outputs on their way to the guard, which makes lists of the iterators."""
        seen: dict[str, _Given] = {}
        for name, each in values.items():
            if is_output(each) and isinstance(items := each.get(), Iterator) and not hasattr(items, "read"):
                seen[name] = self._seen(yielded := Yielded())
                each.set(noted((item for item in items), yielded))
        return seen

    def _seen(self, value: object) -> _Given:
        return _Given(value, form_of(value), None if self._running else self._turn)

    def _tell_unrun(self, run: _GuardRun, error: BaseException | None) -> None:
        """Tell how a guard ends that has not called the function below. ``own``: by an error of the lock's."""
        if run.ran or run.guarded.keeps or not (error is None or isinstance(error, Exception)):
            return
        own = type(error).__module__.partition(".")[0] == "singleton"
        about = {"invocation": run.invocation, "function": run.guarded.name, "own": own, "delivered": run.delivered}
        self._write("guard_ended", **about, error="" if error is None else type(error).__name__)

    def _tell_kept_on(self, run: _GuardRun) -> None:
        """Tell of a hold that has not ended with its guard, or that tells of a loss as it ends."""
        if run.hold is not None and not run.guarded.keeps:
            if run.hold.owned:
                self._tell(run, "owned")
            elif bool(run.hold.lost.wait(0)) != run.hold.lost.is_set():
                self._tell(run, "ended")

    def _tell_kept(self, run: _GuardRun, event: str, value: object, error: BaseException | None) -> None:
        """Tell what a guard is given to keep, and what it answers: a result, and the outputs that are set meanwhile."""
        if run.guarded.keeps and error is None:
            set_to = {name: each.get() for name, each in run.unset.items() if run.guarded.sends_again}
            outputs = {name: NOTHING if given is None else digest(given) for name, given in set_to.items()}
            self._write(event, invocation=run.invocation, digest=kept_digest(value), outputs=outputs)

    def _tell(self, run: _GuardRun, kind: str, what: str = "", *forms: Form, sure: bool = True) -> None:
        about = {"invocation": run.invocation, "function": run.guarded.name, "kind": kind, "what": what}
        self._write("altered", **about, **dict(zip(("given", "got"), map(str, forms), strict=False)), sure=sure)


@cache
def _shown(function: Any) -> list[str]:
    return [*signature_of(function).parameters]


def _named(code: CodeType, arguments: Mapping[str, Any], below: Any) -> dict[str, Any]:
    """Return the arguments of a call by the names that the function below shows to its callers."""
    shown, own = _shown(below), code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    named: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in own:
            named[name] = value
        else:
            named |= value if isinstance(value, dict) else dict(zip(shown[code.co_argcount :], value, strict=False))
    return {name: value for name, value in named.items() if name in shown}
