"""Journals: nothing written is lost, a cut line harms nothing, and all files fall into one order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from simulator.history.journal import Journal, JournalError, Tail, clock, read_journal, read_journals

if TYPE_CHECKING:
    from pathlib import Path


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    before = clock()
    with Journal(tmp_path / "host-1.jsonl", "host-1") as journal:
        journal.write("message_sent", queue="orders", key="Zoë\ud800", count=3, token=None)
    (record,) = read_journal(tmp_path / "host-1.jsonl")
    assert (record.host, record.event) == ("host-1", "message_sent")
    assert dict(record.fields) == {"queue": "orders", "key": "Zoë\ud800", "count": 3, "token": None}
    assert before - 1e-6 <= record.t <= clock() + 1e-6
    assert (record.text("key"), record.text("token"), record.text("missing")) == ("Zoë\ud800", "", "")


def test_what_json_has_no_form_for_is_written_as_text(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl", "fleet") as journal:
        journal.write("run_started", app=tmp_path)
    assert read_journal(tmp_path / "j.jsonl")[0].get("app") == str(tmp_path)


def test_a_record_may_be_about_another_host(tmp_path: Path) -> None:
    with Journal(tmp_path / "fleet.jsonl", "fleet") as journal:
        journal.write("kill", host="host-3", pid=7)
    assert read_journal(tmp_path / "fleet.jsonl")[0].host == "host-3"


def test_a_cut_last_line_is_left_out_and_read_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "host-1.jsonl"
    reader = Tail(path)
    assert reader.read() == []
    path.write_bytes(b'{"t":1,"host":"h","event":"a"}\n{"t":2,"ho')
    assert [record.event for record in reader.read()] == ["a"]
    assert [record.event for record in read_journal(path)] == ["a"]
    with path.open("ab") as file:
        file.write(b'st":"h","event":"b"}\n')
    assert [record.event for record in reader.read()] == ["b"]
    assert reader.read() == []


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b'{"t":1,"host":"h"}', b'{"t":"x","host":"h","event":"e"}'])
def test_a_complete_line_that_is_no_record_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "host-1.jsonl"
    path.write_bytes(b'{"t":1,"host":"h","event":"a"}\n' + line + b"\n")
    with pytest.raises(JournalError, match=r"host-1\.jsonl:2: not a journal record"):
        read_journal(path)


def test_all_journals_of_a_folder_fall_into_one_order(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"t":1,"host":"b","event":"x"}\n{"t":4,"host":"b","event":"x"}\n')
    (tmp_path / "a.jsonl").write_text('{"t":2,"host":"a","event":"x"}\n{"t":3,"host":"a","event":"x"}\n')
    (tmp_path / "a.jsonl.log").write_text("not a journal")
    assert [(record.t, record.host) for record in read_journals(tmp_path)] == [(1, "b"), (2, "a"), (3, "a"), (4, "b")]


def test_threads_write_whole_lines_in_the_order_of_their_times(tmp_path: Path) -> None:
    with Journal(tmp_path / "host-1.jsonl", "host-1") as journal:

        def write(name: str) -> None:
            for number in range(200):
                journal.write("e", name=name, number=number, padding="x" * 300)

        threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = read_journal(tmp_path / "host-1.jsonl")
    assert len(records) == 800
    assert [record.t for record in records] == sorted(record.t for record in records)
    for name in ("t0", "t1", "t2", "t3"):
        assert [r.get("number") for r in records if r.get("name") == name] == list(range(200))


def test_writing_to_a_closed_journal_does_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "host-1.jsonl", "host-1")
    journal.close()
    journal.close()
    journal.write("late")
    assert read_journal(tmp_path / "host-1.jsonl") == []


@pytest.mark.process
def test_what_a_killed_process_had_written_stays_written(tmp_path: Path) -> None:
    path = tmp_path / "host-1.jsonl"
    program = (
        "import sys, time\nfrom simulator.history.journal import Journal\n"
        "journal = Journal(sys.argv[1], 'host-1')\njournal.write('inside')\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert [record.event for record in read_journal(path)] == ["inside"]


@pytest.mark.process
def test_processes_share_one_clock() -> None:
    before = clock()
    program = "from simulator.history.journal import clock; print(clock())"
    there = float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert before < there < clock()
