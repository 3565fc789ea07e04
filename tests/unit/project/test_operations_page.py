"""docs/operations.md quotes log lines and errors, and has the reasons of a loss, like other lists: all still true."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from singleton.base.hold import LossSignal
from singleton.base.kinds import LossReason
from singleton.stores.refusals import REMEDIES
from singleton.testing import lose

ROOT = Path(__file__).resolve().parents[3]
PAGE = " ".join((ROOT / "docs" / "operations.md").read_text("utf-8").split())
SOURCE = "\n".join(file.read_text("utf-8") for file in sorted((ROOT / "singleton").rglob("*.py")))
JOINED = re.sub(r'"\s*\n\s*f?"', "", SOURCE)
"""The source, with texts that go over several lines in one piece."""


@pytest.mark.parametrize(
    "quote",
    [
        " has waited for ",
        "it is held",
        " skipped: lock ",
        " is held by another invocation",
        ": hold lost (",
        "was last granted ",
        ", trying again; ",
        ": storage fails (",
        "); trying again",
        ": storage answers again",
        "the storage does not answer as it should",
        "check the connection's key, SAS or role assignments",
        "denies access: ",
        "something in between answered",
        "no request was sent",
        "The wait ended here because ",
        "Raise functionTimeout, make the bodies that hold the lock shorter, or don't wait: ",
        "was not waited for: ",
        " invocations of this process wait for it already",
        "another process may be inside",
        "A holder of this package stops before that: nobody gets in beside it.",
    ],
)
def test_a_line_that_the_page_quotes_is_one_of_the_product(quote: str) -> None:
    assert quote in PAGE
    assert quote in JOINED


def test_the_page_has_the_usual_codes_of_a_denial() -> None:
    codes = set(re.findall(r"\| `(A\w+|K\w+)` \|", PAGE))
    assert len(codes) == 5
    assert codes <= {*REMEDIES}


def test_the_page_has_each_reason_of_a_loss() -> None:
    (table,) = re.findall(r"\| reason \| what happened \|(.*?) \*\*What to do", PAGE)
    assert set(re.findall(r"`([^`]+)`", table)) - {"max_hold"} == set(get_args(LossReason))


@pytest.mark.parametrize("page", ["docs/locks.md", "docs/testing.md"])
def test_an_example_that_lists_the_reasons_lists_all(page: str) -> None:
    lines = (ROOT / page).read_text("utf-8").splitlines()
    (listed,) = [line for line in lines if "stolen" in line]
    assert [reason for reason in get_args(LossReason) if reason not in listed and reason != "closed"] == []


def test_help_and_the_fixture_for_tests_know_each_reason() -> None:
    told = inspect.getdoc(LossSignal.reason) or ""
    assert [reason for reason in get_args(LossReason) if reason not in told] == []
    taken = str(inspect.signature(lose).parameters["reason"].annotation)
    assert [reason for reason in get_args(LossReason) if reason not in taken] == ["closed"]
