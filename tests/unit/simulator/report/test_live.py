"""The live view: it fits every terminal, and shows what matters in it."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyte
import pytest
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType

from simulator.checks.findings import label
from simulator.checks.verdict import judge
from simulator.history.journal import Record
from simulator.report.board import Board
from simulator.report.files import KEPT, place_for_report
from simulator.report.strip import AROUND, LOOKALIKE, strip
from simulator.report.terminal import TerminalReporter, draws, last_screen, view
from simulator.report.words import Progress
from tests.support.journals import Story, good_story, key_lock, quiet_story

if TYPE_CHECKING:
    from pathlib import Path

SIZES = [(80, 24), (100, 30), (140, 45)]
TOP = 4
"""Lines above the hosts. A smaller terminal shows the first of them: `Live` cuts the rest."""


def board(story: Story) -> Board:
    now = Board()
    for record in sorted(story.records, key=lambda record: record.t):
        now.take(record)
    return now


def progress(at: float = 30) -> Progress:
    return Progress(phase="working", now=1000 + at, elapsed=at, duration=60)


def fault(story: Story, t: float, number: int, kind: str, *hosts: str, what: str, seconds: float | None) -> None:
    about = {"lock": "", "way": "", "aim": "anybody", "seconds": seconds, "what": what}
    story.fleet(t, "fault", id=number, kind=kind, hosts=list(hosts), **about)


def restarted(story: Story, t: float, host: str, after: str) -> None:
    story.records.append(Record(1000 + t, host, "host_restarted", {"after": after}))


def rough_story(hosts: int) -> Story:
    """A run in which much happens on few hosts, under names that are hard to draw."""
    story = Story(hosts=hosts, faults=["kill", "partition"])
    for number in range(1, hosts + 1):
        story.body(f"host-{number}", 1, 1 + number % 4, key_lock(f"key-{number}" * 9), token=number)
    nasty = key_lock("%E6%97%A5%E6%9C%AC%E8%AA%9E%1B[31m%F0%9F%91%A9%E2%80%8D%F0%9F%94%AC" + "z" * 90)
    story.body("host-2", 6, None, nasty, token=1)
    fault(story, 9, 1, "kill", "host-2", what="host-2 is killed", seconds=None)
    story.kill(9, "host-2", nasty)
    story.fleet(9, "fault_ended", id=1, hits=0)
    restarted(story, 11, "host-2.2", "host-2")
    story.add(12, "host-2.2", "host_ready")
    fault(story, 13, 2, "partition", "host-1", what="host-1 is cut off for 40 s, both ways", seconds=40)
    story.body("host-1", 14, None, key_lock("same"), token=1)
    story.body("host-3", 15, None, key_lock("same"), token=2)
    story.body("host-3", 20, None, nasty, token=2)
    story.add(25, "host-3", "pause", holds=[{"lock": nasty}])
    return story


def drawn(shown: RenderableType, width: int, height: int = 24, encoding: str = "utf-8") -> list[str]:
    """Return the lines on a terminal of this size, without colours."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors=LOOKALIKE, newline="\n")
    Console(file=stream, width=width, height=height, highlight=False, color_system=None).print(shown)
    stream.flush()
    return raw.getvalue().decode(encoding).removesuffix("\n").split("\n")


def texts(story: Story, width: int = 80, height: int = 24) -> list[str]:
    return [line.rstrip() for line in drawn(view(board(story), progress(), width, height), width, height)]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("hosts", [5, 12, 40])
@pytest.mark.parametrize(("width", "height"), [*SIZES, (40, 12), (9, 3), (250, 70)])
def test_no_line_is_too_many_or_too_wide(hosts: int, width: int, height: int, encoding: str) -> None:
    lines = drawn(view(board(rough_story(hosts)), progress(), width, height), width, height, encoding)
    assert len(lines) <= max(height, TOP)
    assert (width, height) != (80, 24) or len(lines) == height
    assert max(map(cell_len, lines)) <= width
    assert all(map(str.isprintable, lines))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_terminal_shows_the_lines_that_were_drawn_and_does_not_scroll(
    width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.report.terminal.FRAME", 0.0)
    monkeypatch.setattr("simulator.report.terminal.SHARE", 0)
    screen = pyte.Screen(width, height)
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, force_terminal=True, highlight=False)
    reporter = TerminalReporter(stream, console)
    now = board(rough_story(5))
    for at in (30, 31, 32):
        reporter.show(now, progress(at))
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))  # as a terminal's driver does
    expected = [line.rstrip() for line in drawn(view(now, progress(32), width, height), width, height)]
    shown = [line.rstrip() for line in screen.display]
    assert [squeezed(line) for line in shown[: len(expected)]] == [squeezed(line) for line in expected]
    reporter.close()
    own, back = stream.getvalue().split("\x1b[?1049h")[1].split("\x1b[?1049l")  # a screen of its own, and back
    assert "singleton-sim" in own
    assert "singleton-sim" not in back


def squeezed(line: str) -> str:
    """Leave out spaces: a screen has an empty cell after each wide character."""
    return line.replace(" ", "")


def test_every_host_has_its_line_where_there_is_room() -> None:
    lines = texts(rough_story(5))
    found = [match[1] for line in lines if (match := re.match(r"(host-\S+) +(\w+)  ", line))]
    assert found == ["host-1", "host-2.2", "host-3", "host-4", "host-5"]
    assert any(re.match(r"host-3 +paused +ship.same 15.0 s", line) for line in lines)
    assert "! host-1 is cut off for 40 s, both ways" in lines[2]
    assert lines[2].endswith("23 s left")


def test_those_in_trouble_are_shown_first_and_the_rest_is_counted() -> None:
    lines = texts(rough_story(40))
    assert [line.split()[0] for line in lines if re.match(r"host-[13] ", line)] == ["host-1", "host-3"]
    (more,) = [line for line in lines if "more hosts" in line]
    hosts = sum(bool(re.match(r"host-\d", line)) for line in lines)
    assert hosts + int(more.split()[1]) == 40
    assert any(re.match(r"ship.same +host-3 +2 +2$", line) for line in lines)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_host_with_several_bodies_names_the_first_cut_once_and_counts_the_rest(width: int) -> None:
    story = Story(hosts=2)
    for number in range(3):
        story.body("host-1", 20 + number, None, key_lock(f"a-rather-long-key-of-number-{number}"), token=number)
    (line,) = [line for line in texts(story, width) if line.startswith("host-1 ")]
    first, _, rest = line.split("  ready  ")[1].partition(" s")
    assert first.count("…") <= 1, line
    assert first.endswith("10.0"), line
    assert rest.count("…") <= rest.count(" s"), line
    assert "+" in rest or rest.count(" s") == 2, line


def test_a_small_terminal_shows_the_killed_host_and_its_lock_before_those_that_wait() -> None:
    story = Story(hosts=60)
    story.body("host-50", 20, None, key_lock("mine"), token=1_795_517_185_001_001)
    story.kill(24, "host-50", key_lock("mine"))
    for number in range(1, 50):
        story.lock(25, f"host-{number}", "waiting", key_lock("mine"), f"w{number}")
    story.body("host-1", 1, 2, key_lock("other"), token=1)
    lines = texts(story, 60, 15)
    assert any(line.startswith("host-50  killed ") for line in lines), lines
    assert any(re.match(r"ship\.mine +host-50, .*6\.0 s +49 +1$", line) for line in lines), lines


def test_while_hosts_start_the_view_says_how_many_are_ready_and_shows_these_first() -> None:
    story = Story(hosts=30)
    now = board(story)
    for number in range(31, 101):
        now.state(f"host-{number}")
    story.add(1, "host-31", "host_started", pid=1)
    now.take(story.records[-1])
    begun = Progress(phase="starting", now=1001, elapsed=0, duration=60)
    lines = drawn(view(now, begun, 140, 45), 140, 45)
    assert lines[1].endswith("  30 of 100 hosts ready")
    assert lines[1].count("━") == int(0.3 * (140 - len("30 of 100 hosts ready") - 2))
    assert sum(line.startswith("host-") for line in lines) > 30
    small = drawn(view(now, begun, 80, 24), 80)
    assert any(line.startswith("host-31 ") for line in small)
    assert not any(line.startswith("host-90 ") for line in small)


def test_a_wide_terminal_has_locks_beside_hosts_and_a_timeline() -> None:
    lines = texts(rough_story(5), 140, 45)
    assert re.match(r"host +state +inside .*skipped  lock .*bodies$", lines[3])
    assert any(re.match(r"host-2 +[·░█]+✗ *·+$", line) for line in lines)
    assert "◆ OVERLAP" in "".join(lines)


@pytest.mark.parametrize(
    ("lock", "name"),
    [
        ("locks/fleet/ship.tenant%2Da", "ship.tenant-a"),
        ("locks/fleet/~north", "~north"),
        ("locks/fleet/ship~listener", "ship (listener)"),
        ("locks/fleet/ship.a/slot-12", "ship.a #12"),
        ("locks/fleet/Host.Functions.Ship.a/b", "Ship.a/b"),
        ("locks/fleet/Host.Functions.Ship.Listener", "Ship (listener)"),
        ("locks/fleet/ship." + "0a1b2c3d" * 5, "ship.0a1b2c3d…"),
        ("orders", "orders"),
        ("locks/fleet/ship.%1B%5B2J%0A", "ship.\\x1b[2J\\n"),
        ("locks/fleet/ship.%E2%80%AEabc%EF%B8%8F", "ship.\\u202eabc\\ufe0f"),
    ],
)
def test_locks_have_names_that_people_can_read(lock: str, name: str) -> None:
    assert label(lock) == name


def lanes(story: Story, width: int, rows: int = 9, at: float = 30) -> list[str]:
    lines = strip(board(story), width, rows, now=1000 + at, overlaps=[])
    return [line.rstrip() for line in drawn(Group(*lines), width)]


def test_the_timeline_shows_bodies_kills_faults_pauses_and_take_overs_in_their_columns() -> None:
    story = Story()
    story.body("host-1", 2, 5, asked=1)
    story.body("host-2", 5, None, key_lock("a"))
    story.kill(9, "host-2", key_lock("a"))
    restarted(story, 12, "host-2.2", "host-2")
    fault(story, 6, 1, "partition", "host-1", what="cut", seconds=3)
    story.fleet(9, "fault_ended", id=1, hits=3)
    story.body("host-3", 14, 16, key_lock("a"), asked=12)
    story.add(14.5, "host-3", "pause", holds=[])
    story.add(15.5, "host-3", "resume")
    story.add(18, "host-1", "host_draining", holds=[])
    story.add(19, "host-1", "host_exited", expected=True, code=0)
    assert lanes(story, 7 + 20, at=20) == [
        "       0 s",
        "host-1 ·░████!~~~········▼·",
        "host-2 ·····████✗  ········",
        "host-3 ············░░▲=█···",
        "✗ killed  ▲ took over  ▼ d…",
    ]


def test_the_timeline_says_of_which_hosts_it_has_no_row() -> None:
    lines = lanes(rough_story(40), 140, rows=4)
    assert len(lines) == 4 + AROUND
    assert [line.split()[0] for line in lines[1:-1]][:3] == ["host-1", "host-2", "host-3"]
    assert lines[-1].endswith("36 more hosts")


def test_hosts_that_ran_no_body_share_a_row_and_are_counted() -> None:
    lines = lanes(quiet_story(62), 100)
    assert [line.split()[0] for line in lines[1:-1]] == ["host-1", "host-2", "quiet"]
    assert lines[-1].endswith("quiet: 60 hosts ran no body")
    assert len(lanes(quiet_story(4), 100)) == 4 + AROUND  # two are not worth it


def test_overlaps_are_marked_on_both_hosts_without_colour() -> None:
    story = Story()
    story.body("host-1", 2, 6, held=False)
    story.body("host-3", 4, 8, held=False)
    met = [(1004.0, 1006.0, "host-1", "host-3")]
    lines = strip(board(story), 27, 5, now=1020, overlaps=met)
    assert drawn(Group(*lines), 27, encoding="ascii")[1:4] == [
        "host-1 ..##@@@.............",
        "host-2 ....................",
        "host-3 ....@@@##...........",
    ]


def finished(story: Story, *, encoding: str = "utf-8", **console: object) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    reporter = TerminalReporter(stream, Console(file=stream, width=80, height=24, highlight=False, **console))  # type: ignore[arg-type]
    reporter.step("Installing Azurite: 3 s")
    reporter.step("Installing Azurite: 4 s")
    reporter.show(board(story), progress())
    reporter.finish(judge(story.end(30)), ["Try this …", "Report: /reports/run-1.html"])
    reporter.close()
    reporter.close()
    return raw.getvalue().decode(encoding)


def test_the_last_screen_has_the_timeline_and_the_verdict_and_ends_with_the_report() -> None:
    lines = finished(good_story()).splitlines()
    (row,) = [line for line in lines if line.startswith("host-2 ")][-1:]
    assert "✗" in row
    assert any("HOLDS" in line for line in lines)
    assert lines[-2:] == ["Try this …", "Report: /reports/run-1.html"]


def test_the_last_screen_has_a_form_for_terminals_without_unicode() -> None:
    text = finished(good_story(), encoding="ascii")
    assert "+ 6 guarded bodies" in text or "+ 7 guarded bodies" in text
    assert "x killed" in text
    assert "Try this ~" in text


def test_a_long_name_hides_no_word_of_the_verdict() -> None:
    story = good_story()
    story.body("host-3", 6, None, key_lock("x" * 70), token=2)
    story.kill(7, "host-3", key_lock("x" * 70))
    story.body("host-1", 21, 22, key_lock("x" * 70), token=3, asked=8)
    verdict = judge(story.end(30))
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(last_screen(verdict))
    shown = re.sub(r"[\s│]", "", console.export_text())
    assert "killedat7.0swhileitheldship." + "x" * 70 + ";host-1tookitoverafter14.0s" in shown


def test_no_color_leaves_the_cursor_and_takes_the_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = re.compile(r"\x1b\[[0-9;]*3[1-6]")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured.search(finished(good_story(), force_terminal=True, color_system="standard"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(finished(good_story(), force_terminal=True, color_system="standard"))


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_dumb_terminal_gets_plain_lines() -> None:
    assert draws(_Terminal(), {"TERM": "xterm-256color"})
    assert draws(_Terminal(), {})
    assert not draws(_Terminal(), {"TERM": "dumb"})
    assert not draws(io.StringIO(), {"TERM": "xterm"})


def test_the_last_reports_stay_and_the_oldest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINGLETON_SIM_CACHE", str(tmp_path))
    begin = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for number in range(KEPT + 3):
        place_for_report(begin + timedelta(seconds=number), seed=7).touch()
    (tmp_path / "reports" / "mine.html").touch()
    place_for_report(begin + timedelta(minutes=5), seed=8).touch()
    names = sorted(path.name for path in (tmp_path / "reports").iterdir())
    assert len(names) == KEPT + 1
    assert (names[0], names[1], names[-1]) == ("mine.html", "run-20260102-030409-7.html", "run-20260102-030905-8.html")


def test_markup_in_names_is_only_text() -> None:
    story = Story()
    story.body("host-1", 1, None, key_lock("%5Bred%5Dx%5B%2Fred%5D"))
    assert "[red]x[/red]" in "".join(texts(story))
    story.kill(2, "host-1", key_lock("%5Bbold%5D"))
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(last_screen(judge(story.end(60))))
    assert "[bold]" in console.export_text()
