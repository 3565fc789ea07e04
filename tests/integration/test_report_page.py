"""The report in a browser: it opens, shows every lane, zooms, filters, links, and asks no network for anything."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import simulator.report.html
from simulator.faults.real import KINDS
from simulator.report.html.html_report import ReportContent, as_page
from simulator.report.timeline.timeline import Timeline
from simulator.report.words import Line
from tests.support.journals import quiet_story
from tests.support.report_pages import bad_page, good_page, large_page, page_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAINT = Path(simulator.report.html.__file__).parent / "page" / "paint.js"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=SpareRendererForSitePerProcess",
)
FIRST_DRAW = 6.0
"""Seconds until a report of 100 hosts and 10,000 sections is drawn, on a machine that does other things too."""
ZOOM = 0.5
"""Seconds of a zoom in it."""

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or importlib.util.find_spec("playwright") is None:
        pytest.skip(f"needs playwright and a browser on PATH: one of {', '.join(BROWSERS)}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=FLAGS)
        context = running.new_context(viewport={"width": 1280, "height": 900})
        first = context.new_page()  # the browser's helpers start with it
        yield context
        first.close()
        running.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open a report; at the end no error may have been logged, and nothing asked for but the file."""
    page = browser.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))

    def open_page(text: str, address: str = "") -> Any:
        file = tmp_path / "run.html"
        file.write_text(text, "utf-8")
        page.goto(file.as_uri() + address)
        return page

    yield open_page
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("file://")] == []


def until(page: Any, condition: str) -> None:
    """Wait until something is so. Playwright's own wait would evaluate text, which the page's policy forbids."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    pytest.fail(f"it never came: {condition}")


def settle(page: Any) -> None:
    """Wait until what has changed is drawn: that happens at the next frame."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def window(page: Any) -> list[float]:
    shown: list[float] = page.evaluate("report.chart.view.window")
    return [round(t, 2) for t in shown]


def lanes(page: Any, kind: str) -> list[str]:
    names: list[str] = page.evaluate(f"report.chart.lanes.filter((l) => l.type === '{kind}').map((l) => l.label)")
    return names


def marks(page: Any, lane: str) -> list[str]:
    """Return what the marks of a lane say."""
    told: list[str] = page.evaluate(
        """(name) => report.chart.lanes.find((lane) => lane.label === name).items
             .filter((item) => item.kind === 'mark').map((item) => item.of.what)""",
        lane,
    )
    return told


def pixels(page: Any, red: str) -> int:
    """Count the chart's pixels of a colour."""
    settle(page)
    many: int = page.evaluate(
        """(color) => {
          const canvas = document.getElementById('lanes');
          const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
          let many = 0;
          for (let i = 0; i < data.length; i += 4)
            if (`${data[i]},${data[i + 1]},${data[i + 2]}` === color) many++;
          return many;
        }""",
        red,
    )
    return many


def middle_of(page: Any, lane: str, t: float) -> tuple[float, float]:
    """Return where a time lies in a lane, on the screen."""
    settle(page)
    x, y = page.evaluate(
        """([name, t]) => {
          const { chart } = report;
          const lane = chart.lanes.find((each) => each.label === name);
          const box = document.getElementById('lanes').getBoundingClientRect();
          return [box.left + chart.place.x(t), box.top + lane.y - chart.page.box.scrollTop + 9];
        }""",
        [lane, t],
    )
    return float(x), float(y)


def test_it_shows_the_verdict_and_a_lane_for_each_host_lock_and_queue(opened: Callable[..., Any]) -> None:
    page = opened(good_page())
    assert page.inner_text("#headline").startswith("HOLDS")
    assert lanes(page, "host") == ["host-1", "host-2", "host-3"]
    assert lanes(page, "lock") == ["import_eligibility", "ship.a", "ship.b"]
    assert lanes(page, "queue") == ["orders (under way)"]
    assert lanes(page, "fault") == ["faults"]
    assert window(page) == [0, 40]
    assert len(marks(page, "faults")) == 5
    assert marks(page, "host-2") == ["host-2 (pid 100) is killed while it holds ship.a"]
    assert marks(page, "ship.b") == ["an operator breaks ship.b"]
    assert page.is_hidden("#violations")
    assert "overlaps" in page.inner_text("#checks")
    assert "host-3 is cut off for 4 s" in page.inner_text("#faults")
    assert "m3" in page.inner_text("#messages")


def test_a_fault_that_strikes_at_a_moment_is_marked_on_its_lock_though_its_records_are_apart(
    opened: Callable[..., Any],
) -> None:
    page = opened(good_page())
    struck: list[str] = page.evaluate(
        "report.chart.lanes.filter((l) => l.type === 'lock')"
        ".flatMap((l) => l.items.filter((i) => i.kind === 'mark' && i.of.fault).map((i) => `${i.of.fault} ${l.label}`))"
    )
    assert struck == ["break ship.b"]


def test_what_is_broken_is_red_and_linked_to_its_moment(opened: Callable[..., Any]) -> None:
    good = pixels(opened(good_page()), "201,24,43")
    page = opened(bad_page())
    assert pixels(page, "201,24,43") > good + 2000
    assert "VIOLATED" in page.inner_text("#headline")
    page.click("text=host-1 and host-2 are both inside import_eligibility for 1.00 s")
    until(page, "report.chart.view.window[0] > 1")
    assert window(page) == [11.4, 13.6]
    assert lanes(page, "lock") == ["import_eligibility"]
    assert page.input_value("#lock") == "=import_eligibility"


def test_the_strip_shows_how_many_are_inside_together_and_when(opened: Callable[..., Any]) -> None:
    page = opened(bad_page())
    settle(page)
    parts = page.evaluate("report.run.density.shared.length")
    shared = page.evaluate("[...report.run.density.shared].map((n, i) => [i, n]).filter(([, n]) => n)")
    assert {many for _, many in shared} == {2}
    assert [shared[place][0] * 40 / parts for place in (0, -1)] == pytest.approx([12, 13], abs=0.1)
    assert page.evaluate("Math.max(...report.run.density.busy)") == 2
    # A red sign above, and below it a red bar for as many as there are: what is between stays free.
    reds: list[int] = page.evaluate(
        """() => {
          const canvas = document.getElementById('overview');
          const ratio = canvas.width / canvas.clientWidth;
          const { data } = canvas.getContext('2d').getImageData(Math.round(canvas.width / 3.2), 0, 1, canvas.height);
          return [9, 12, 20, 40].filter((y) => data[4 * Math.round(y * ratio)] === 201);
        }"""
    )
    assert reds == [9, 20, 40]


def test_each_message_can_be_pointed_at(opened: Callable[..., Any]) -> None:
    page = opened(good_page())
    assert page.evaluate("report.chart.lanes.find((l) => l.type === 'queue').items.length") == 4
    page.evaluate("report.chart.page.box.scrollTop = 1e6")
    x, y = middle_of(page, "orders (under way)", 20.2)
    page.mouse.move(x, y + 11)  # in the first row below the count
    page.wait_for_selector("#tip:not([hidden])")
    tip = page.inner_text("#tip")
    assert "message m3 of orders" in tip
    assert "received by host-2 at 3.90 s" in tip
    assert "received by host-3 at 24.50 s" in tip
    assert "done after 21.8 s" in tip
    assert "completed" in tip
    page.mouse.move(*middle_of(page, "host-1", 20))
    page.mouse.move(x, y + 14)  # in the second row
    until(page, "document.getElementById('tip').innerText.includes('message m4 of orders')")


def test_a_report_without_a_run_has_no_timeline(opened: Callable[..., Any]) -> None:
    empty = ReportContent(
        title="singleton-sim explore",
        headline=Line("good", "No promise was broken."),
        lines=(),
        facts=(),
        timeline=Timeline(duration=0.0, hosts=(), locks=()),
    )
    page = opened(as_page(empty))
    assert [page.is_hidden(f"#{name}") for name in ("timeline", "waiting", "messages", "calls")] == [True] * 4


def test_zoom_by_wheel_buttons_keys_and_by_dragging(opened: Callable[..., Any]) -> None:
    page = opened(good_page())
    x, y = middle_of(page, "host-1", 20)
    page.mouse.move(x, y)
    page.wait_for_timeout(400)  # the page itself has just been scrolled, perhaps
    page.mouse.wheel(0, -200)
    until(page, "report.chart.view.window[1] < 39")
    start, end = window(page)
    assert start < 20 < end
    assert round((20 - start) / (end - start), 1) == 0.5
    page.click("#whole")
    assert window(page) == [0, 40]
    page.click("#closer")
    assert window(page) == [8, 32]
    page.focus("#chart")
    page.keyboard.press("-")
    assert window(page) == [0, 40]
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert window(page) == [12.8, 36.8]
    page.keyboard.press("0")
    (left, y), (right, _) = middle_of(page, "host-1", 10), middle_of(page, "host-1", 15)
    page.mouse.move(left, y)
    page.mouse.down()
    page.mouse.move(right, y, steps=3)
    page.mouse.up()
    start, end = window(page)
    assert (round(start, 1), round(end, 1)) == (10, 15)
    until(page, "location.hash.startsWith('#t=')")


def test_filters_leave_the_lanes_that_match(opened: Callable[..., Any]) -> None:
    page = opened(good_page())
    page.fill("#lock", "ship.b")
    assert (lanes(page, "lock"), lanes(page, "host")) == (["ship.b"], ["host-3"])
    page.fill("#lock", "")
    page.fill("#host", "host-2")
    assert (lanes(page, "host"), lanes(page, "lock")) == (["host-2"], ["import_eligibility", "ship.a"])
    settle(page)
    assert "1 of 3 hosts" in page.inner_text("#shown")


def test_a_link_to_a_moment_opens_there(opened: Callable[..., Any]) -> None:
    page = opened(good_page(), "#t=4,6.5&lock=ship.a")
    assert window(page) == [4, 6.5]
    assert lanes(page, "lock") == ["ship.a"]
    page.evaluate("location.hash = '#t=1,2'")
    until(page, "report.chart.view.window[0] === 1 && report.chart.lanes.length > 5")
    assert page.input_value("#lock") == ""


def test_pointer_and_keyboard_show_the_records_behind_a_body(opened: Callable[..., Any]) -> None:
    page = opened(good_page())
    page.mouse.move(*middle_of(page, "host-3", 25.25))
    page.wait_for_selector("#tip:not([hidden])")
    assert "inside ship.a" in page.inner_text("#tip")
    assert "acquired, token 4" in page.inner_text("#tip")
    page.mouse.move(2, 2)
    page.focus("#chart")
    for key in ("ArrowDown", "ArrowDown", "n"):
        page.keyboard.press(key)
    assert "ship on host-1" in page.inner_text("#detail") or "import_eligibility on host-1" in page.inner_text(
        "#detail"
    )
    assert "invocation started" in page.inner_text("#detail")


def test_dark_light_narrow_and_print(opened: Callable[..., Any]) -> None:
    page = opened(good_page())
    light = pixels(page, "255,255,255")
    page.click("#theme")
    until(page, "document.documentElement.dataset.theme === 'dark'")
    assert pixels(page, "255,255,255") < light / 10
    page.click("#closer")
    page.emulate_media(media="print")
    until(page, "report.chart.printing")
    assert window(page) == [0, 40]
    assert pixels(page, "255,255,255") > light / 2
    page.emulate_media(media="screen")
    until(page, "!report.chart.printing")
    assert window(page) == [8, 32]
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.set_viewport_size({"width": 390, "height": 800})
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.evaluate("""() => {
      const { chart } = report;
      chart.lanes[1].label = "a-host-with-a-name_".repeat(5);
      chart.room = null;
      chart.drawNow();
    }""")
    boxes = "[...document.querySelectorAll('#checks .wide, #waiting .wide, #messages .wide')]"
    assert page.evaluate(f"{boxes}.every((box) => box.scrollWidth <= box.clientWidth)")
    assert "looked at" in page.evaluate(
        "getComputedStyle(document.querySelector('#checks td:nth-child(3)'), '::before').content"
    )
    assert page.evaluate(
        "report.chart.lanes.every((lane) => lane.lines.join('').replace(/ /g, '') === lane.label.replace(/ /g, ''))"
    )
    assert page.evaluate("report.chart.lanes.every((lane) => lane.lines.length * 13 <= lane.h)")
    legend = page.inner_text("#legend")
    tables = re.findall(r"^const (?:SHAPES|FAULTS) = \{(.*)\};$", PAINT.read_text("utf-8"), re.MULTILINE)
    signs = [sign for table in tables for sign in re.findall(r': "([^"]+)"', table)]
    assert len(signs) > len(KINDS)
    assert [sign for sign in signs if f"{sign} " not in legend] == []
    assert [kind for kind in KINDS if kind not in legend] == []
    page.set_viewport_size({"width": 1280, "height": 900})


def test_hosts_that_never_ran_a_body_share_a_lane_until_somebody_asks_for_one(opened: Callable[..., Any]) -> None:
    page = opened(page_of(quiet_story(62).end(30)))
    assert lanes(page, "host") == ["host-1", "host-2", "60 hosts ran no body"]
    settle(page)
    assert page.inner_text("#shown").startswith("62 of 62 hosts")
    page.fill("#host", "=host-9")
    assert lanes(page, "host") == ["host-9"]
    page.fill("#host", "")
    page.set_viewport_size({"width": 390, "height": 844})
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate("report.chart.lanes.find((lane) => lane.folded).lines.join(' ')") == "60 hosts ran no body"
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_hundred_hosts_and_ten_thousand_sections_are_drawn_and_zoomed_at_once(opened: Callable[..., Any]) -> None:
    page = opened(large_page())
    assert page.evaluate("report.run.bodies.length") == 10_000
    assert len(lanes(page, "host")) == 100
    assert len(lanes(page, "lock")) == 60
    drawn = page.evaluate("performance.now() / 1000")
    assert drawn < FIRST_DRAW
    took = page.evaluate(
        """() => {
          const times = [];
          for (let i = 0; i < 8; i++) {
            const before = performance.now();
            document.getElementById(i % 2 ? 'farther' : 'closer').click();
            report.chart.drawNow();
            times.push(performance.now() - before);
          }
          return times.sort((a, b) => a - b)[4] / 1000;
        }"""
    )
    assert took < ZOOM
