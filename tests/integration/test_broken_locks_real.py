"""Broken locks in real hosts, and a right app that looks odd: the short ones. All: ``python -m tests.broken``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broken.real import cases, told

CASES = {case.name: case for case in cases()}


@pytest.mark.parametrize("name", ["bodies-run-on-in-threads-of-their-own", "app-wrapped"])
def test_the_verdict_of_real_hosts_is_what_it_must_be(name: str) -> None:
    verdict = told(replace(CASES[name], options=""), duration=3)
    assert CASES[name].met_by(verdict), verdict.words
