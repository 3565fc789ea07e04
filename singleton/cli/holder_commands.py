"""``hold`` and ``break``: the operator keeps a lock, or takes a lock away from its holder."""

from __future__ import annotations

import math
import sys
import time
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.base.errors import LockNotAcquired, StorageError, StorageUnavailable
from singleton.base.words import quoted
from singleton.cli.output import holder_dict, iso, moment, plain, say, span, span_of, who, write_json
from singleton.cli.session import Session, in_a_session, named_slots, tell_of_slots
from singleton.cli.silence import Outage
from singleton.cli.view_commands import lock_named
from singleton.locking.holder import holder
from singleton.operating.lease_break import Passed, end_hold
from singleton.operating.locks import Waiting, lock_of_seat
from singleton.stores.lock_keeping import LONGEST_BREAK
from singleton.stores.stamps import header_safe

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason
    from singleton.operating.lease_break import Broken
    from singleton.operating.locks import LockInfo

_PAUSE: Final = 2.0
"""Seconds between two attempts while the storage does not answer, or refuses: an attempt takes time as well."""


@click.command()
@click.argument("name")
@click.option("--reason", required=True, metavar="TEXT", help="Why you hold it. Those who wait for the lock see it.")
@click.option(
    "--timeout", type=span_of(), metavar="SPAN", help="How long to wait for the lock. Default: until it is free."
)
@click.option("--for", "length", type=span_of(), metavar="SPAN", help="How long to hold it. Default: until Ctrl-C.")
@click.option("--new", is_flag=True, help="Hold it even if no lock has this name yet.")
@in_a_session
def hold(session: Session, name: str, reason: str, timeout: float | None, length: float | None, *, new: bool) -> int:
    """Keep the lock NAME, renewed, until Ctrl-C.

    Nobody else gets the lock meanwhile. The command waits for it, also while the storage does not answer. To stop a job
    that hangs, begin to hold, then run break in another terminal.
    """
    reason = _as_kept(reason)
    now = time.monotonic()
    ends = math.inf if length is None else now + length
    asking = _Asking(session, name, f"operator: {reason}", math.inf if timeout is None else now + timeout)
    asking.look(new=new)
    while (held := asking.get()) is not None:
        lost, silent = False, ""
        try:
            lost = _keep(held, ends)
            silent = asking.silence
        finally:
            session.release(held)
            if lost:
                asking.say_lost(held.lost.reason, silent)
            else:
                asking.say("given back")
        if not lost:
            return 0
        asking.deadline = ends
    return 1


def _as_kept(reason: str) -> str:
    """Return the reason in letters that metadata allows, and tell of a change. ``UsageError``: no letter is left."""
    if not reason.strip():
        raise click.UsageError("--reason is empty: say why you hold the lock, for those who wait for it")
    plainer = unicodedata.normalize("NFKD", reason.replace("ß", "ss"))
    letters = "".join(char for char in plainer if not unicodedata.combining(char))
    kept = header_safe(" ".join(letters.split()))
    if not kept.strip("? "):
        raise click.UsageError(
            f"--reason is {quoted(reason)}: use ASCII letters, because a blob's metadata keeps no others"
        )
    if kept != reason.strip():
        say(f"the reason is kept as {quoted(kept)}, because a blob's metadata keeps only ASCII letters", err=True)
    return kept


def _keep(held: Hold, ends: float) -> bool:
    """Wait until it is lost, or its time is over; tell if it is lost."""
    while (left := ends - time.monotonic()) > 0:
        if held.lost.wait(min(1.0, left)):
            return True
    return False


class _Asking:
    """Asks for the lock until it is there, whatever the storage does, and says what is waited for.

    ``deadline``: when to give up, by the monotonic clock; infinite: never.
    """

    def __init__(self, session: Session, name: str, owner: str, deadline: float) -> None:
        self.deadline = deadline
        self._session = session
        self._name = name
        self._owner = owner
        self._outage = Outage(session.answers)
        self._had = self._waiting = False

    def look(self, *, new: bool) -> None:
        """Refuse a lock that does not exist; a new lock, if a semaphore has its name."""
        while True:
            try:
                self._look_once(new=new)
            except StorageUnavailable as error:
                self._bear(error)
            except StorageError:
                if not new:  # who may not list, or is the first in the container, may hold all the same
                    raise
                return
            else:
                return

    def _look_once(self, *, new: bool) -> None:
        try:
            lock_named(self._session, self._name)
        except click.UsageError:
            is_seat = lock_of_seat(self._name, self._session.container) is not None
            if not new or is_seat or named_slots(self._session, self._name):
                raise
        else:
            tell_of_slots(self._session, self._name)

    def get(self) -> Hold | None:
        """Acquire the lock; None: another holder had it to the end. ``StorageError``: refused, or no answer in time."""
        while True:
            try:
                held = self._try()
            except StorageError as error:
                if not self._had and not isinstance(error, StorageUnavailable):
                    raise
                self._bear(error)
                continue
            self._outage.is_over()
            self._waiting = False
            self._had = self._had or held is not None
            self.say("not acquired") if held is None else self.say("held", "; Ctrl-C gives it back")
            return held

    def _try(self) -> Hold | None:
        try:
            return self._session.acquire(self._name, timeout=0, owner=self._owner)
        except LockNotAcquired:
            pass
        if not self._waiting:
            by = self._session.ask(lambda store: holder(store, self._name))
            self.say("waiting", f": {who(by)} has it" if by else "", holder=by and holder_dict(by))
            self._waiting = True
        self._outage.is_over()
        timeout = None if self.deadline == math.inf else max(0.0, self.deadline - time.monotonic())
        try:
            return self._session.acquire(self._name, timeout=timeout, owner=self._owner)
        except LockNotAcquired:
            return None

    def _bear(self, error: StorageError) -> None:
        """Wait a moment before the next attempt, unless the time is over."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise error
        self._outage.goes_on(error)
        time.sleep(min(_PAUSE, left))

    @property
    def silence(self) -> str:
        """For how long the storage has not answered, in words; empty where it does."""
        since = self._session.answers.since
        return "" if since is None else f": the storage has not answered for {span(time.monotonic() - since)}"

    def say_lost(self, reason: LossReason | None, silence: str) -> None:
        """Print the loss and its reason: a hold expires if no renewal is answered."""
        self.say("lost", f" ({reason}{silence if reason == 'expired' else ''}); asking for it again", reason=reason)

    def say(self, state: str, more: str = "", **known: Any) -> None:
        if self._session.as_json:
            about = {"holder": None, "reason": None, **known}
            write_json({"lock": self._name, "state": state, "at": iso(time.time()), **about}, streamed=True)
        else:
            say(f"{plain(self._name)} {state}{more}")


_LONGEST_WAIT: Final = 65.0
_LOOK: Final = 0.5


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_BREAK:
        raise click.BadParameter(f"{quoted(text)} is not a number of seconds from 0 to {LONGEST_BREAK}")
    return seconds


@click.command("break")
@click.argument("name")
@click.option("--notice", type=_seconds, metavar="SECONDS", help="End the lease after this many seconds, from 0 to 60.")
@click.option("--now", is_flag=True, help="End the lease at once, like --notice 0.")
@click.option("--wait", is_flag=True, help="Wait until the lease has ended.")
@click.option("--yes", is_flag=True, help="Break a lease that has no end without asking.")
@in_a_session
def break_(session: Session, name: str, notice: float | None, *, now: bool, wait: bool, yes: bool) -> int:
    """Take the lock NAME away from its holder.

    Its lease can't be renewed any more, and ends when it expires. A holder of this package stops before that, by its
    own clock, so no two are inside, even if it hangs. With a shorter --notice two may be inside; the output says for
    how long.

    Other libraries promise less. A DistributedLock of .NET that was stopped goes on when it wakes, beside the next
    holder. A healthy WebJobs host aborts its whole process at its next renewal, with all its other invocations.
    """
    if now and notice is not None:
        raise click.UsageError("--now and --notice are both given: keep one of them")
    notice = 0.0 if now else notice
    lock, _ = lock_named(session, name, endless=True)
    tell_of_slots(session, name)
    wait = wait and not isinstance(lock, Waiting)  # an arrival takes the seat as soon as there is one
    taken = lock.held or lock.endless
    if taken and lock.endless and notice is None:
        if not _asked(session, name, yes=yes):
            click.echo("nothing was broken")
            return 1
        notice = 0.0
    broken = session.ask(lambda store: end_hold(store, name, notice)) if taken else None
    if broken is None or isinstance(broken, Passed):
        _tell_of_nothing(session, name, broken)
        return 1
    if not session.as_json:
        _tell(broken)
        if wait:
            then = _ended(session, name)
            say(f"Now it is {f'held by {who(then.holder)}' if then.holder else 'free'}.")
        return 0
    told = _as_json(broken)
    try:
        if wait:
            told["now"] = None
            then = _ended(session, name)
            told["now"] = {"held": then.held, "holder": then.holder and holder_dict(then.holder)}
    finally:  # what was broken is broken, whatever became of the waiting
        write_json(told)
    return 0


def _asked(session: Session, name: str, *, yes: bool) -> bool:
    """Ask whether a lease that never ends is to be broken, which ends it at once; return the answer."""
    if yes:
        return True
    if session.as_json or not sys.stdin.isatty():
        raise click.UsageError(f"the lease of {name!r} has no end: give --now, --notice SECONDS or --yes")
    return click.confirm(f"The lease of {plain(name)} has no end, so breaking it ends it at once. Break it?")


def _tell_of_nothing(session: Session, name: str, passed: Passed | None) -> None:
    """Tell the user that nothing was broken: the lock is free, or went on to the next holder in that moment."""
    if session.as_json:
        write_json({"lock": name, "broken": False, "holder": passed and holder_dict(passed.now)})
    elif passed is None:
        say(f"{plain(name)}: nobody has it; nothing was broken")
    else:
        say(f"{plain(name)} changed hands before the break arrived; nothing was broken.")
        say(f"It was held by {who(passed.before)}.")
        say(f"Now it is held by {who(passed.now)}.")


def _has_our_record(broken: Broken) -> bool:
    """Tell whether the blob has a record of this package, perhaps of an earlier holder. A .NET host writes an owner."""
    return broken.holder.host is not None


def _as_json(broken: Broken) -> dict[str, Any]:
    return {
        "lock": broken.lock,
        "broken": True,
        "holder": holder_dict(broken.holder),
        "record_of_this_package": _has_our_record(broken),
        "free_in": broken.free_in,
        "together": None if broken.together == math.inf else broken.together,
        "broken_before": broken.before,
    }


def _tell(broken: Broken) -> None:
    since = broken.holder.since
    say(f"{plain(broken.lock)} was held by {who(broken.holder)}{f' since {moment(since)}' if since else ''}.")
    when = f"ends in {span(broken.free_in)}" if broken.free_in else "has ended"
    say(f"Its lease {when} and can't be renewed; then others can have it.")
    known = _has_our_record(broken)
    if not known or not broken.lock.startswith("locks/"):  # only this package has names with this folder
        left = (
            "The record is of this package, and perhaps of an earlier holder."
            if known
            else ("Its holder left no record of this package.")
        )
        say(f"{left} If another library has the lock, two may be inside:")
        say("a DistributedLock of .NET that was stopped goes on when it wakes. A healthy WebJobs host aborts its whole")
        say("process at its next renewal, with all its other invocations. If this package has it:")
    if not broken.together:
        say("A holder of this package stops before that: nobody gets in beside it.")
        return
    bound = "for as long as it likes" if broken.together == math.inf else f"for up to {span(broken.together)}"
    beside = f"goes on {bound}: two may be inside, and only tokens keep them apart."
    if not broken.before:
        say(f"A holder that can't be reached {beside}")
        return
    say("It was being broken already. If that was without a notice, its holder stops before that.")
    say(f"If not, a holder that can't be reached {beside}")


def _ended(session: Session, name: str) -> LockInfo:
    """Wait until the lease that was broken is over, and return the lock as it is then."""
    ends = time.monotonic() + _LONGEST_WAIT
    lock, _ = lock_named(session, name)
    while lock.state == "breaking" and time.monotonic() < ends:
        time.sleep(_LOOK)
        lock, _ = lock_named(session, name)
    return lock
