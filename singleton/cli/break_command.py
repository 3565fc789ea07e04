"""``break``: take a lock away from its holder."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from singleton.base.words import quoted
from singleton.cli.output import holder_dict, moment, plain, say, span, who, write_json
from singleton.cli.session import Session, in_a_session, tell_of_slots
from singleton.cli.view_commands import lock_named
from singleton.operating.lease_break import Passed, end_hold
from singleton.stores.lock_keeping import LONGEST_BREAK

if TYPE_CHECKING:
    from singleton.operating.lease_break import Broken
    from singleton.operating.locks import LockInfo

_LONGEST_WAIT: Final = 65.0
_LOOK: Final = 0.5


def _seconds(text: str) -> float:
    """Read the option of how many seconds a holder has left."""
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

    Its lease can't be renewed any more, and ends when it expires. Its holder stops before that, by its own clock, so no
    two are inside, even if it hangs. With a shorter --notice two may be inside; the output says for how long.
    """
    if now and notice is not None:
        raise click.UsageError("--now and --notice are both given: keep one of them")
    notice = 0.0 if now else notice
    lock, _ = lock_named(session, name)
    tell_of_slots(session, name)
    if lock.held and lock.endless and notice is None:
        if not _asked(session, name, yes=yes):
            click.echo("nothing was broken")
            return 1
        notice = 0.0
    broken = session.on_store(lambda store: end_hold(store, name, notice)) if lock.held else None
    if broken is None or isinstance(broken, Passed):
        _tell_of_nothing(session, name, broken)
        return 1
    if not session.as_json:
        _tell(broken)
        if wait:
            _tell_now(_ended(session, name))
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
    """Say that nothing was broken: nobody has the lock, or it went on to the next one in that moment."""
    if session.as_json:
        write_json({"lock": name, "broken": False, "holder": passed and holder_dict(passed.now)})
    elif passed is None:
        say(f"{plain(name)}: nobody has it; nothing was broken")
    else:
        say(f"{plain(name)} changed hands before the break arrived; nothing was broken.")
        say(f"It was held by {who(passed.before)}.")
        say(f"Now it is held by {who(passed.now)}.")


def _as_json(broken: Broken) -> dict[str, Any]:
    return {
        "lock": broken.lock,
        "broken": True,
        "holder": holder_dict(broken.holder),
        "free_in": broken.free_in,
        "together": None if broken.together == math.inf else broken.together,
        "broken_before": broken.before,
    }


def _tell(broken: Broken) -> None:
    since = broken.holder.since
    say(f"{plain(broken.lock)} was held by {who(broken.holder)}{f' since {moment(since)}' if since else ''}.")
    when = f"ends in {span(broken.free_in)}" if broken.free_in else "has ended"
    say(f"Its lease {when} and can't be renewed; then others can have it.")
    if not broken.together:
        say("Its holder stops before that: nobody gets in beside it.")
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


def _tell_now(lock: LockInfo) -> None:
    say(f"Now it is {f'held by {who(lock.holder)}' if lock.holder else 'free'}.")
