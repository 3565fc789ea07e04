"""The report as a file: one document, which is safe whatever the names in it are, and which is written whole."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from simulator.report.files import OutFile, OutFileError
from simulator.report.html.html_report import SCRIPTS, as_page
from simulator.virtual.faults import KINDS
from simulator.virtual.oracle.evidence import Violation
from simulator.virtual.search.story_report import of_story
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.outcome import Run
from tests.support.journals import Story, good_story, key_lock
from tests.support.report_pages import bad_page, good_page, page_of

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><script>alert(1)</script>\u2028\"'&<!--"


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_it_is_one_document_that_may_ask_nobody_for_anything() -> None:
    page = good_page()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.findall(r"(?:src|href)=\"(?!#)", page)
    assert "@@" not in page
    # The only address in it is the name of SVG.
    assert set(re.findall(r"https?://[^\"'\s]*", page)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("place", ["host", "lock", "message", "key", "reason"])
def test_a_hostile_name_stays_a_name(place: str) -> None:
    story = good_story()
    given = {name: HOSTILE if name == place else name for name in ("host", "lock", "message", "key", "reason")}
    story.sent(2, given["message"], given["key"])
    story.body(given["host"], 2, 3, f"locks/shared/ship.{given['lock']}", message=given["message"], owner=HOSTILE)
    story.add(30, "host-3", "worker_exited", worker=1, reason=given["reason"])
    page = page_of(story.end(40))
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert "\u2028" not in page
    assert HOSTILE in json.dumps(data_of(page), ensure_ascii=False).replace('\\"', '"')


def test_no_secret_and_no_text_of_a_message_gets_into_it() -> None:
    story = good_story()
    secret = "AccountName=a;AccountKey=c2VjcmV0;EndpointSuffix=x sig=c2ln Bearer dG9rZW4"
    story.add(5, "host-1", "host_error", message=f"can't open {secret}")
    story.lock(6, "host-1", "lost", key_lock("a"), "x", reason=secret)
    story.sent(7, "m9", secret)
    page = page_of(story.end(40))
    assert "can't open AccountName=a;AccountKey=***" in page
    assert not {"c2VjcmV0", "c2ln", "dG9rZW4"} & set(re.findall(r"\w+", page))


def test_the_headline_the_numbers_and_the_checks_are_those_of_the_verdict() -> None:
    data = data_of(bad_page())
    assert data["headline"] == {"mark": "bad", "text": "VIOLATED: two were inside at once."}
    assert ["overlaps", "1"] in data["facts"]
    assert data["checks"][0]["name"] == "overlaps"
    assert data["checks"][0]["findings"][0][0] == "violation"
    assert data["again"] == "singleton-sim --hosts 3 --seed 7"


def test_a_host_that_is_started_again_is_one_host() -> None:
    story = good_story()
    assert dict(data_of(page_of(story.end(40)))["facts"])["hosts"] == "3"
    story = good_story()
    for times in (2, 3):
        story.add(4 + times, f"host-2.{times}", "host_restarted", after="host-2.2" if times > 2 else "host-2")
        story.add(4.5 + times, f"host-2.{times}", "host_started", pid=times)
    facts = data_of(page_of(story.end(40)))["facts"]
    assert facts[:2] == [["hosts", "3"], ["started again", "2"]]


def test_what_there_is_much_of_comes_in_columns_whose_texts_are_numbers() -> None:
    data = data_of(good_page())
    bodies, texts = data["bodies"], data["texts"]
    assert {len(column) for column in bodies.values()} == {6}
    assert [texts[number] for number in bodies["$host"]][:2] == ["host-1", "host-1"]
    assert len(set(texts)) == len(texts)


def test_a_token_too_large_for_javascript_is_a_text() -> None:
    story = Story()
    story.body("host-1", 1, 2, token=2**53)
    assert data_of(page_of(story.end(5)))["bodies"]["token"] == [str(2**53)]


def test_every_script_is_a_file_and_every_file_of_the_page_is_used() -> None:
    names = {path.name for path in (files("simulator.report.html") / "page").iterdir()}
    assert names == {*SCRIPTS, "page.html", "page.css"}


@pytest.mark.usefixtures("prepared_for_worlds")
def test_a_story_shows_its_hosts_its_faults_and_the_promise_that_was_broken() -> None:
    fault = KINDS["crash"](at=3.0, host=1)
    scenario = WorldScenario(seed=5, hosts=3, workload="mutex", faults=(fault,))
    records = Story(hosts=0).records[:0]
    broken = Violation(4.0, "exclusion", "<host-1> and host-2 hold locks/explored/~key-0")
    run = Run((broken,), reached=Counter(), seconds=9.0, turns=1, records=tuple(records))
    subject = of_story(scenario, run, ["a line"], "singleton-sim replay story.json")
    data = data_of(as_page(subject))
    assert data["headline"]["text"] == "BROKEN (exclusion): host-1 and host-2 hold locks/explored/~key-0."
    assert [host["name"] for host in data["hosts"]] == ["host-0", "host-1", "host-2"]
    assert data["duration"] == 9.0
    told = [(mark["kind"], mark["at"], mark.get("hosts")) for mark in data["marks"]]
    assert told == [("fault", 3.0, ["host-1"]), ("finding", 4.0, ["host-1", "host-2"])]
    assert data["story"] == ["a line"]
    assert data["checks"] == []  # it has no records: no check has looked at anything
    assert [(trouble["at"], trouble["check"]) for trouble in data["troubles"]] == [(4.0, "exclusion")]


def test_a_file_is_written_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    file = OutFile("--report", path)
    assert list(tmp_path.iterdir()) == []
    file.write("one")
    file.write("two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_whose_folder_is_gone_keeps_what_was_there_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    file = OutFile("--report", folder / "run.html")
    folder.rmdir()
    with pytest.raises(OutFileError, match=r"--report .*run.html: no such file or directory: it was not written"):
        file.write("text")


def test_a_link_stays_a_link_and_what_it_names_is_written(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    OutFile("--report", tmp_path / "link.html").write("new")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"


def test_a_path_that_can_t_be_written_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(OutFileError, match="it is a folder: give the name of a file in it"):
        OutFile("--report", tmp_path)
    with pytest.raises(OutFileError, match=r"there is no folder .*nowhere: make it, or give another path"):
        OutFile("--report", tmp_path / "nowhere" / "run.html")
    with pytest.raises(OutFileError, match="file name too long: give a path that can be written"):
        OutFile("--report", tmp_path / ("x" * 300))
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(OutFileError, match="give a path that can be written"):
        OutFile("--report", tmp_path / "circle" / "run.html")
