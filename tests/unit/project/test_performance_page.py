"""docs/performance.md: the benchmarks write its tables, and their text names what they count with."""

from __future__ import annotations

import re

import pytest

from benchmarks import bench_days, page
from benchmarks.__main__ import benchmarks, main

TEXT = page.PAGE.read_text(encoding="utf-8")
ROWS = [("what", "calls"), ("a cycle", "2")]


def test_a_table_takes_the_place_of_the_one_before_and_nothing_else() -> None:
    old = "before\n<!-- made: a -->\nold\n<!-- end -->\nafter\n<!-- made: b -->\nstays\n<!-- end -->\n"
    new = page.replaced(old, "a", ROWS, "today")
    assert new == old.replace("old\n", "| what | calls |\n| --- | ---: |\n| a cycle | 2 |\n\ntoday\n")
    assert page.replaced(new, "a", ROWS, "today") == new


def test_a_table_without_a_place_says_where_to_make_one() -> None:
    with pytest.raises(ValueError, match="no section 'c': put <!-- made: c --> and <!-- end -->"):
        page.replaced("", "c", ROWS, "today")


def test_the_page_has_a_place_for_each_table_and_each_has_been_measured() -> None:
    places = re.findall(r"<!-- made: (\w+) -->\n(.*?)<!-- end -->", TEXT, re.DOTALL)
    assert {name for name, _ in places} >= {"cycles", "days", "first", "import"}
    assert all(table.startswith("| ") for _, table in places)


def test_the_prices_of_the_page_are_those_that_it_is_made_with() -> None:
    assert f"{bench_days.OTHER:g} dollars, writes {bench_days.WRITES:g}" in TEXT


def test_every_module_of_benchmarks_is_found() -> None:
    assert {"storage", "first", "days", "observing", "virtual", "sweep", "drift"} <= benchmarks(1.0, 1.0).keys()


def test_help_lists_every_benchmark_with_what_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for name in benchmarks(1.0, 1.0):
        assert re.search(rf"(?m)^  {name} +\w.*[.?]$", shown), name


def test_each_day_that_is_counted_has_a_row_in_the_page() -> None:
    assert "| a lock held all day, `failover=2.0` | " in TEXT
    assert "| a process that waits for it all day, `failover=2.0` | " in TEXT


def test_a_day_is_counted_by_what_the_shipped_code_asks() -> None:
    async def two_messages() -> None:
        await bench_days.messages(2, 2)()

    calls = bench_days.calls_of(two_messages)
    assert calls == {"blob.create": 2, "blob.acquire": 2, "blob.release": 2}
