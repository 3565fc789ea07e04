"""tests/conformance/numbers.md has every number of the specification, each with a test that exists or a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "tests" / "conformance" / "numbers.md").read_text(encoding="utf-8")
NUMBERS = [
    *(f"W-{number}" for number in range(1, 112)),
    *(f"D-{number}" for number in range(1, 46)),
    *(f"M-{number}" for number in range(1, 70)),
    *(f"S-{number}" for number in (*range(1, 14), 15)),
    *(f"X-{number}" for number in range(1, 9)),
]
DELIBERATE = ("W-38", "W-67", "W-74", "D-18", "D-26", "D-36", "D-38", "M-12", "M-28")
"""Those of which the specification itself says that ours is to differ."""


def rows(page: str) -> list[tuple[str, str, str]]:
    """Return number, clause and proof of each row of the tables."""
    cells = (re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if re.match(r"\| [A-Z]-\d", line))
    return [(number.strip(), clause.strip(), proof.strip()) for number, clause, proof in cells]


def named_tests(proof: str) -> list[str]:
    return re.findall(r"`(tests/[^`]*)`", proof)


def problems(page: str, numbers: list[str]) -> list[str]:
    """Return what is wrong with a page that is to have these numbers."""
    found = rows(page)
    have = [number for number, _, _ in found]
    wrong = [f"{number} is missing" for number in numbers if number not in have]
    wrong += [f"{number} is there twice" for number in sorted(set(have)) if have.count(number) > 1]
    for number, clause, proof in found:
        tests, reason = named_tests(proof), proof.partition("**deviates**:")[2]
        if not clause:
            wrong.append(f"{number} says nothing")
        if not tests and not reason.strip():
            wrong.append(f"{number} has neither test nor reason")
        if "**deviates**" in proof and len(reason.split()) < 3:
            wrong.append(f"{number} deviates without a reason")
        wrong += [f"{number}: there is no {test}" for test in tests if not exists(test)]
    return wrong


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / path
    if not name.startswith("test_") or not file.is_file():
        return False
    return re.search(rf"^(async )?def {name}\(", file.read_text(encoding="utf-8"), re.MULTILINE) is not None


def test_every_number_has_a_test_that_exists_or_a_reason() -> None:
    assert problems(PAGE, NUMBERS) == []


def test_the_numbers_stand_in_their_order() -> None:
    have = [number for number, _, _ in rows(PAGE) if not number.startswith("H-")]
    assert have == NUMBERS


@pytest.mark.parametrize("number", DELIBERATE)
def test_what_the_specification_wants_otherwise_is_otherwise(number: str) -> None:
    (proof,) = [proof for have, _, proof in rows(PAGE) if have == number]
    assert "**deviates**: " in proof


def test_a_page_that_lacks_something_is_found_out() -> None:
    here = Path(__file__).relative_to(ROOT).as_posix()
    fine = f"| Z-1 | says so | `{here}::test_a_page_that_lacks_something_is_found_out` |\n"
    assert problems(fine, ["Z-1"]) == []
    assert problems(fine, ["Z-1", "Z-2"]) == ["Z-2 is missing"]
    assert problems(fine * 2, ["Z-1"]) == ["Z-1 is there twice"]
    for proof, wrong in {
        "": "has neither test nor reason",
        "as above": "has neither test nor reason",
        "**deviates**:": "deviates without a reason",
        f"`{here}::test_of_nothing`": f"there is no {here}::test_of_nothing",
        f"`{here}`": f"there is no {here}",
        "`tests/unit/test_nowhere.py::test_x`": "there is no tests/unit/test_nowhere.py::test_x",
    }.items():
        assert any(wrong in each for each in problems(f"| Z-1 | says so | {proof} |", ["Z-1"])), proof
    assert problems("| Z-1 |  | **deviates**: there is none here |", ["Z-1"]) == ["Z-1 says nothing"]
