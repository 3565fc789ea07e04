"""The pure parts of the report's script, in the Node that the simulator brings for Azurite."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import simulator.report.html
from simulator.azurite.install import node

pytestmark = pytest.mark.process
SCALE = Path(simulator.report.html.__file__).parent / "page" / "scale.js"


def evaluate(*expressions: str) -> list[Any]:
    """Evaluate expressions where the pure functions are known."""
    told = ", ".join(f"() => ({each})" for each in expressions)
    code = f"{SCALE.read_text('utf-8')}\nconsole.log(JSON.stringify([{told}].map((each) => each())));"
    done = subprocess.run([node(), "-"], input=code, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    values: list[Any] = json.loads(done.stdout)
    return values


def test_a_window_stays_inside_the_run_and_never_gets_empty() -> None:
    assert evaluate(
        "clamped(-5, 5, 40)",
        "clamped(35, 55, 40)",
        "clamped(0, 100, 40)",
        "clamped(7, 7, 40)",
        "clamped(0, 0, 0)",
        "clamped(NaN, 5, 40)",
    ) == [[0, 10], [20, 40], [0, 40], [7, 7.002], [0, 0.002], [0, 40]]


def test_zooming_leaves_the_time_under_the_pointer_where_it_is() -> None:
    assert evaluate("zoomed([0, 40], 0.5, 10, 40)", "zoomed([5, 25], 4, 10, 40)", "moved([10, 20], 0.5, 40)") == [
        [5, 25],
        [0, 40],
        [15, 25],
    ]


def test_the_axis_has_round_times_with_as_many_digits_as_they_need() -> None:
    assert evaluate("ticks(0, 40, 400)", "ticks(1.02, 1.06, 450).map((tick) => tick[1])", "ticks(0, 1000, 90)") == [
        [[0, "0"], [10, "10"], [20, "20"], [30, "30"], [40, "40"]],
        ["1.02", "1.03", "1.04", "1.05", "1.06"],
        [[0, "0"], [1000, "1000"]],
    ]


def test_a_filter_lets_through_what_has_one_of_its_words() -> None:
    assert evaluate(
        "lets('', 'a')",
        "lets('BRAVO', 'ship.bravo-2')",
        "lets('host-1', 'host-10')",
        "lets('x y', 'a', 'by')",
        "lets('x', 'a')",
        "lets('=ship.a b', 'ship.a b')",
        "lets('=ship.a', 'ship.a-2', 'ship.A')",
    ) == [True, True, True, True, False, True, False]


def test_a_moment_and_its_filters_survive_the_way_through_an_address() -> None:
    view = """{t: [12.3, 15], lock: "ship.a b&c=d#%/é", host: "host-1"}"""
    again, nothing, odd, one, broken = evaluate(
        f"readHash(makeHash({view}))",
        "makeHash({t: null, lock: '', host: ''})",
        "readHash('#t=x,y&lock=%E0%A4%A&what=1')",
        "readHash('#t=12')",
        "readHash('#t=9,3')",
    )
    assert again == {"t": [12.3, 15], "lock": "ship.a b&c=d#%/é", "host": "host-1"}
    assert (nothing, odd, one, broken) == ("", {}, {"t": [11, 13]}, {"t": [8, 10]})


def test_spans_are_packed_into_rows_in_which_none_overlaps_up_to_a_limit() -> None:
    spans = "const spans = [[0, 5], [1, 2], [2, 3], [4, 6], [4, 9], [5, 7]].map(([s, e]) => ({ s, e }));"
    assert evaluate(
        f"(() => {{ {spans} return [packRows(spans, 9), spans.map((each) => each.row)]; }})()",
        f"(() => {{ {spans} return [packRows(spans, 2), spans.map((each) => each.row)]; }})()",
    ) == [[3, [0, 1, 1, 1, 2, 0]], [2, [0, 1, 1, 1, 1, 0]]]


def test_thinning_leaves_out_only_what_nobody_can_see() -> None:
    many = "Array.from({ length: 100000 }, (_, i) => ({ s: i / 1000, e: i / 1000 + 0.0005, bad: i === 4321, i }))"
    few, close, with_bad, long_ago = evaluate(
        f"thinned({many}, 0.0005, [0, 100], 1000).length",
        f"thinned({many}, 0.0005, [50, 50.01], 1000).map((span) => span.i)",
        f"thinned({many}, 0.0005, [0, 100], 1000).some((span) => span.bad)",
        "thinned([{ s: 0, e: 50 }, { s: 1, e: 2 }, { s: 45, e: 60 }], 50, [40, 44], 100).length",
    )
    assert 500 <= few <= 1100
    assert close == list(range(50000, 50011)) or close == list(range(49999, 50011))
    assert with_bad is True
    assert long_ago == 1


def test_waiting_times_are_counted_between_edges_and_a_share_lies_below_a_quantile() -> None:
    assert evaluate(
        "histogram([0.005, 0.01, 0.02, 5, 100], [0.01, 0.1, 10, Infinity])",
        "[quantile([1, 2, 3, 4], 0.5), quantile([1, 2, 3, 4], 1), quantile([], 0.5)]",
        "steps([[0, 5], [1, 2], [2, 3]])",
    ) == [[1, 2, 1, 1], [3, 4, 0], [[0, 1], [1, 2], [2, 2], [3, 1], [5, 0]]]


def test_no_colour_of_a_host_or_lock_is_near_red() -> None:
    (hues,) = evaluate("Array.from({ length: 500 }, (_, i) => hue(i))")
    assert min(hues) >= 30
    assert max(hues) <= 330


def test_a_name_that_is_too_long_is_cut_into_lines_and_loses_nothing() -> None:
    fits = "(text) => text.length <= 8"
    assert evaluate(
        f"wrapped('ship', {fits})",
        f"wrapped('import_eligibility', {fits})",
        f"wrapped('orders (under way)', {fits})",
        f"wrapped('abcdefghijkl', {fits})",
        "wrapped('abc', () => false)",
    ) == [["ship"], ["import_", "eligibil", "ity"], ["orders", "(under", "way)"], ["abcdefgh", "ijkl"], ["a", "b", "c"]]
