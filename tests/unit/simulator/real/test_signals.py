"""Signals: one interrupts the run wherever it is, but for steps that must not be left half done."""

from __future__ import annotations

import os
import signal

import pytest

from simulator.real.settle import Interrupt, Signals


def send(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_once_and_the_shell_learns_which(number: signal.Signals) -> None:
    with Signals() as signals:
        with pytest.raises(Interrupt):
            send(number)
        assert not signals.hurry()
        send(number)
        assert signals.hurry()
    assert signals.exit_code == 128 + number


def test_a_signal_in_a_held_step_interrupts_at_its_end() -> None:
    steps = []

    def step(signals: Signals) -> None:
        with signals.held():
            with signals.held():
                send()
            steps.append("done")

    with Signals() as signals:
        with pytest.raises(Interrupt):
            step(signals)
        assert steps == ["done"]


def test_nothing_is_interrupted_while_things_are_being_closed() -> None:
    with Signals() as signals:
        signals.close()
        send()
        with signals.held():
            pass
        assert signals.received


def test_what_signals_did_before_they_do_again() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
