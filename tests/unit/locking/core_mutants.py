"""Ways to break the core, each with a test that must fail then. ``test_core_mutants.py`` sees to it that it does."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from singleton.base.errors import StorageDenied
from tests.support.mutants import Mutant
from tests.support.network import LOST_REQUEST, answered
from tests.unit.base import test_hold as hold
from tests.unit.locking import test_fencing as fencing
from tests.unit.locking import test_lease_deadline as deadline
from tests.unit.locking import test_lease_renewal as renewal
from tests.unit.locking import test_lease_stop as stop
from tests.unit.locking import test_lock_cancel as cancel
from tests.unit.locking import test_lock_close as close
from tests.unit.locking import test_lock_loss as loss
from tests.unit.locking import test_lock_once as once
from tests.unit.locking import test_lock_queue as queue
from tests.unit.locking import test_lock_release as release
from tests.unit.locking import test_lock_storage as storage
from tests.unit.locking import test_lock_timeouts as timeouts
from tests.unit.locking import test_lock_turns as turns
from tests.unit.locking import test_lock_unknown as unknown
from tests.unit.locking import test_state_kept as state

if TYPE_CHECKING:
    from collections.abc import Callable

FENCING = "locking.fencing"
Killed = tuple[Mutant, "Callable[[], object]"]


def lease(name: str, old: str, new: str, test: Callable[[], object]) -> Killed:
    return Mutant(name, "locking.lease", old, new), test


def acquisition(name: str, old: str, new: str, test: Callable[[], object]) -> Killed:
    return Mutant(name, "locking.acquisition", old, new), test


def lock(name: str, old: str, new: str, test: Callable[[], object]) -> Killed:
    return Mutant(name, "locking.lock", old, new), test


def line(name: str, old: str, new: str, test: Callable[[], object]) -> Killed:
    return Mutant(name, "locking.line", old, new), test


def phase(name: str, old: str, new: str, test: Callable[[], object]) -> Killed:
    return Mutant(name, "locking.phase", old, new), test


UNSAFE: list[Killed] = [
    lease(
        "a deadline counted from the renewal's reply",
        "self._renewed(sent, replied)",
        "self._renewed(self.loop.time(), replied)",
        deadline.test_a_renewal_moves_the_deadline_to_its_sending_however_late_its_reply,
    ),
    acquisition(
        "a deadline counted from the acquire's reply",
        "sent=sent, period=of.period",
        "sent=asyncio.get_running_loop().time(), period=of.period",
        loss.test_a_hold_counts_from_the_sending_of_its_acquire_however_late_the_reply,
    ),
    lease(
        "a deadline that is no deadline",
        "self._deadline = sent + self._period * (1 - MARGIN)",
        "self._deadline = sent + 3 * self._period",
        partial(deadline.test_renewals_that_hang_lose_the_lease_at_its_deadline_and_not_before, LOST_REQUEST, 15.0),
    ),
    lock(
        "a lease given back while its section runs",
        "await record.until_ended()",
        "await asyncio.wait({record.ended}, timeout=3.0)\n                record.end()",
        release.test_the_lock_is_kept_until_its_section_has_ended,
    ),
    acquisition(
        "a release that frees whoever has the lease",
        "await self._store.release(self._name, lease_id)",
        "await self._store.break_(self._name)",
        loss.test_the_late_end_of_a_section_leaves_the_next_holder_alone,
    ),
    lock(
        "waiters let in two at a time",
        "await record.until_ended()",
        "await asyncio.sleep(0.01); self.guard = BlobGuard()",
        queue.test_sections_of_a_process_never_overlap,
    ),
    (
        Mutant("an epoch that is not counted up", FENCING, "epoch = self._epoch + 1", "epoch = self._epoch"),
        fencing.test_tokens_increase_over_handoffs_releases_and_processes,
    ),
]

OTHERS: list[Killed] = [
    lease(
        "no margin",
        "(1 - MARGIN)",
        "1.0",
        partial(deadline.test_a_fifteenth_of_the_period_is_kept_as_margin, 15.0),
    ),
    lease(
        "a mismatch read as a hiccup",
        "if failure.loss is not None:",
        'if failure.loss == "broken":',
        partial(
            renewal.test_a_definitive_answer_loses_the_lease_at_once_and_says_why, "LeaseIdMismatchWithLeaseOperation"
        ),
    ),
    lease(
        "a hiccup read as a loss",
        "if failure.loss is not None:\n                self.lose(failure.loss, failure)",
        'self.lose(failure.loss or "stolen", failure)',
        partial(renewal.test_an_answer_that_says_nothing_about_the_lease_is_asked_again_and_survived, answered(503)),
    ),
    lease(
        "the id in a renewal's reply is not looked at",
        "if replied != self.id:",
        "if not replied:",
        renewal.test_a_renewal_answered_for_another_lease_id_means_stolen,
    ),
    lease(
        "a late reply revives",
        "elif self.overdue():",
        "elif self.lost and not replied:",
        partial(deadline.test_a_reply_that_is_handled_after_the_machine_slept_past_the_deadline_revives_nothing, 8.0),
    ),
    lease(
        "Retry-After beyond the deadline",
        "return min(max(delay, failure.retry_after or 0.0), max(last_try, _FASTEST_RETRY))",
        "return max(delay, failure.retry_after or 0.0) + 0 * last_try",
        partial(renewal.test_retry_after_never_costs_the_last_try_before_the_deadline, 30.0),
    ),
    lease(
        "Retry-After ignored",
        "max(delay, failure.retry_after or 0.0)",
        "delay",
        partial(renewal.test_retry_after_is_honoured, 4.0),
    ),
    (
        Mutant(
            "renewals that are not joined",
            "locking.renewals",
            "task.cancel()\n        await asyncio.wait({task})",
            "await asyncio.sleep(0)",
        ),
        stop.test_the_lease_is_given_back_only_when_a_renewal_that_is_slow_to_stop_has_stopped,
    ),
    lease(
        "calls without a time limit",
        "return min(self._deadline, sent + min(_LONGEST_CALL, max(_SHORTEST_CALL, left / 2)))",
        "return self._deadline + self._period",
        deadline.test_no_renewal_is_waited_for_past_the_deadline,
    ),
    acquisition(
        "a new id for each request",
        "self.in_doubt, self.unusable = True, None\n",
        "self.in_doubt, self.unusable = True, None\n        self._id = self._new_id()\n",
        unknown.test_a_lost_acquire_reply_is_asked_again_with_the_same_id_and_held,
    ),
    acquisition(
        "an id used again after its release",
        "lease_id, self._id = self._id, self._new_id()",
        "lease_id = self._id",
        unknown.test_an_id_is_not_used_again_after_it_was_given_up,
    ),
    acquisition(
        "an unknown outcome left alone",
        "if doubt and not await self._release(lease_id):",
        "if doubt is None:",
        partial(
            unknown.test_an_attempt_given_up_with_its_outcome_unknown_is_released_by_its_id, answered(executed=True)
        ),
    ),
    acquisition(
        "a doubt forgotten",
        "doubt or failure.leaves_doubt",
        "failure.leaves_doubt",
        unknown.test_an_acquire_that_arrives_after_a_later_one_was_answered_no_is_released_too,
    ),
    acquisition(
        "a lease kept whose stamp failed",
        "            self.unusable = began, await self.give_back(lease)\n            raise",
        "            raise",
        partial(release.test_a_lease_whose_stamp_failed_is_given_back, "write", answered(403)),
    ),
    acquisition(
        "a lease kept whose stamp was cut off by a close",
        "        except BaseException:\n            self.unusable",
        "        except Exception:\n            self.unusable",
        partial(close.test_closing_at_any_moment_of_a_slow_acquisition_leaves_no_lease, 1.0),
    ),
    acquisition(
        "a stolen lease released",
        'lease.lost not in (None, "expired", "broken", "too long") or await',
        "await",
        turns.test_a_lease_that_somebody_else_took_during_a_long_section_is_left_alone,
    ),
    acquisition(
        "a release without end",
        "_RELEASE = 5.0",
        "_RELEASE = 500.0",
        partial(release.test_storage_that_does_not_answer_delays_a_release_by_five_seconds_at_most, LOST_REQUEST),
    ),
    line(
        "a hold that is granted to who has gone",
        "waiter.hold.record.end()",
        "pass",
        partial(cancel.test_a_cancellation_at_any_step_leaves_no_lease_and_forgets_no_waiter, cancel.alone),
    ),
    line(
        "last come, first served",
        "(first := next(iter(self._waiters), None))",
        "(first := next(reversed(self._waiters), None))",
        queue.test_waiters_of_a_process_are_served_in_the_order_in_which_they_came,
    ),
    lock(
        "a lost lease handed on",
        "is not None and lease.alive():",
        "is not None:",
        loss.test_the_next_in_line_does_not_get_a_lease_that_was_lost_in_the_section_before,
    ),
    lock(
        "a turn without end",
        "                    if self._phases.had_its_run:",
        "                    if self._phases.had_its_run and self._line.closed:",
        partial(turns.test_another_host_waits_no_longer_than_the_window_a_section_and_a_poll, 5.0, 0.5, 5.0),
    ),
    lock(
        "nobody stands back",
        "            if self._phases.had_its_run:\n                self",
        "            if self._phases.had_its_run and self._line.closed:\n                self",
        turns.test_a_process_alone_keeps_the_lock_for_its_window_then_leaves_it_for_a_poll,
    ),
    line(
        "forbidden read as a hiccup",
        'case "denied" | "refused":',
        'case "refused":',
        storage.test_denied_after_waiting_for_a_while_is_told_at_the_next_poll,
    ),
    line(
        "no last look",
        "LAST_LOOK: Final = 0.5",
        "LAST_LOOK: Final = -100.0",
        partial(timeouts.test_the_lock_is_asked_for_once_more_shortly_before_a_time_out, 9.0),
    ),
    line(
        "a time-out that is always contention",
        "if phases.trouble is not None or not in_use:",
        "if not in_use and self.closed:",
        partial(timeouts.test_a_time_out_is_exact_when_the_storage_does_not_answer, 3.0, LOST_REQUEST),
    ),
    line(
        "who asks once is told of contention before anybody knows",
        "(self.first() is not None and self.phases.in_use)",
        "self.first() is not None",
        partial(
            once.test_all_who_ask_once_get_the_answer_of_the_request_that_is_under_way, answered(403), StorageDenied
        ),
    ),
    lock(
        "who asks once waits for a lock that this process got",
        "if last is None:",
        "if last is not None:",
        once.test_one_of_many_who_ask_once_gets_a_free_lock_and_the_others_hear_at_once_that_it_is_in_use,
    ),
    line(
        "being behind somebody taken for contention",
        "(phases.in_use and behind)",
        "behind",
        partial(storage.test_a_time_out_behind_others_while_the_storage_does_not_answer_is_no_contention, LOST_REQUEST),
    ),
    phase(
        "an old outage remembered",
        "if self.phase is not Phase.TROUBLE:\n            _log",
        "if not self._failing_since:\n            _log",
        storage.test_an_outage_long_ago_does_not_shorten_the_patience_with_a_new_one,
    ),
    lock(
        "a close that cuts the release off",
        "await asyncio.wait({server}, timeout=_CLOSE)",
        "await asyncio.wait({server}, timeout=0.0)",
        partial(close.test_a_release_that_has_just_begun_is_not_cut_off_by_a_close, 0.005),
    ),
    lock(
        "a lease given back by a close under a running section",
        'lease.lose("closed", quiet=self._is_kept)\n                    await lease.stop()',
        'lease.lose("closed")\n                    await self._acquisition._release(lease.id)',
        close.test_a_running_section_learns_that_its_lock_was_closed_and_its_lease_lapses_by_itself,
    ),
    line(
        "those who leave wake nobody",
        "            if self._waking is not None:\n                self._wake()\n",
        "",
        cancel.test_waiters_that_leave_end_the_polling,
    ),
    (
        Mutant(
            "metadata of others dropped",
            "stores.stamps",
            "if key.lower() not in ours}",
            "if key.lower() in ours}",
        ),
        fencing.test_metadata_of_others_is_kept,
    ),
    (
        Mutant("a stale copy of the metadata", FENCING, "if etag != self._etag:", "if not self._etag:"),
        fencing.test_metadata_that_changed_since_our_last_stamp_is_read_again,
    ),
    (
        Mutant("content of others is replaced", FENCING, "        if self._foreign:\n", "        if False:\n"),
        state.test_content_of_somebody_else_is_not_replaced_nor_removed,
    ),
    (
        Mutant("one token for all sections", FENCING, "* SECTIONS + self._section", "* SECTIONS"),
        fencing.test_tokens_increase_over_handoffs_releases_and_processes,
    ),
    (
        Mutant(
            "a hold that does not look at the clock",
            "base.hold",
            "and lease.loop.time() >= lease.deadline:",
            "and lease.lost:",
        ),
        loss.test_a_machine_that_slept_through_its_lease_knows_before_its_next_step,
    ),
    (
        Mutant("a hold lost after its end", "base.hold", "        self._lease = None\n", "        pass\n"),
        hold.test_a_hold_that_was_released_is_not_lost_later,
    ),
]
