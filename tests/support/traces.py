"""A strict reader of Chrome's trace event format: it says everything that is wrong with a trace."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

PHASES = {"M", "X", "i", "s", "f", "C"}
METADATA = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def problems(trace: dict[str, Any]) -> list[str]:
    """Return what is wrong with a trace, a sentence each."""
    events = trace.get("traceEvents")
    if not isinstance(events, list) or not events:
        return ["no traceEvents"]
    found = [problem for event in events for problem in _of_one(event)]
    if found:
        return found
    times = [event["ts"] for event in events]
    if times != sorted(times):
        found.append("not in the order of time")
    return found + _undeclared(events) + _crossing(events) + _unpaired(events)


def _of_one(event: dict[str, Any]) -> list[str]:
    phase, name = event.get("ph"), event.get("name")
    found = []
    if phase not in PHASES:
        found.append(f"unknown phase {phase!r}")
    if not isinstance(name, str) or not name:
        found.append(f"no name: {event}")
    for field in ("ts", "pid", "tid", *(("dur",) if phase == "X" else ())):
        value = event.get(field)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            found.append(f"{field} of {name!r} is {value!r}")
    if not isinstance(event.get("args", {}), dict):
        found.append(f"args of {name!r} are no object")
    if phase == "i" and event.get("s") not in {"t", "p", "g"}:
        found.append(f"scope of {name!r} is {event.get('s')!r}")
    if phase in {"s", "f"} and not isinstance(event.get("id"), int):
        found.append(f"arrow {name!r} has no id")
    if phase == "f" and event.get("bp") != "e":
        found.append(f"arrow {name!r} does not end in the slice around it")
    if phase == "C" and not all(
        isinstance(value, int) and value >= 0 for value in event.get("args", {"": None}).values()
    ):
        found.append(f"counter {name!r} counts {event.get('args')!r}")
    if phase == "M" and name not in METADATA:
        found.append(f"unknown metadata {name!r}")
    return found


def _undeclared(events: list[dict[str, Any]]) -> list[str]:
    """Find processes and threads without a name and a place, or with two."""
    declared: dict[tuple[str, int, int], int] = defaultdict(int)
    owners: dict[int, int] = {}
    for event in events:
        if event["ph"] == "M":
            of_thread = event["name"].startswith("thread")
            declared[event["name"], event["pid"], event["tid"] if of_thread else 0] += 1
            if of_thread:
                owners.setdefault(event["tid"], event["pid"])
    found = [f"{what} of {pid}/{tid} is given {many} times" for (what, pid, tid), many in declared.items() if many > 1]
    for event in events:
        pid, tid = event["pid"], event["tid"]
        names = [("process_name", pid, 0), ("process_sort_index", pid, 0)]
        if event["ph"] not in {"M", "C"}:
            names += [("thread_name", pid, tid), ("thread_sort_index", pid, tid)]
            if owners.get(tid) != pid:
                found.append(f"thread {tid} of process {pid} is one of {owners.get(tid)}")
        found += [f"{name[0]} of {pid}/{tid} is not given" for name in names if name not in declared]
    return found


def _crossing(events: list[dict[str, Any]]) -> list[str]:
    """Find slices of one thread that are neither beside nor within each other."""
    found = []
    stacks: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for event in events:
        if event["ph"] != "X":
            continue
        stack, end = stacks[event["tid"]], event["ts"] + event["dur"]
        while stack and stack[-1][0] <= event["ts"]:
            stack.pop()
        if stack and stack[-1][0] < end:
            found.append(f"{event['name']!r} crosses the end of {stack[-1][1]!r}")
        stack.append((end, event["name"]))
    return found


def _unpaired(events: list[dict[str, Any]]) -> list[str]:
    """Find arrows without the other end, back in time, or with an end in no slice."""
    found = []
    slices: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: dict[str, dict[int, dict[str, Any]]] = {"s": {}, "f": {}}
    for event in events:
        if event["ph"] == "X":
            slices[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in ends:
            if event["id"] in ends[event["ph"]]:
                found.append(f"arrow {event['id']} has two events {event['ph']!r}")
            ends[event["ph"]][event["id"]] = event
            if not any(start <= event["ts"] < end for start, end in slices[event["tid"]]):
                found.append(f"arrow {event['id']}: {event['ph']!r} is in no slice")
    found += [f"arrow {number} has one end only" for number in ends["s"].keys() ^ ends["f"].keys()]
    for number in ends["s"].keys() & ends["f"].keys():
        begin, end = ends["s"][number], ends["f"][number]
        if begin["ts"] > end["ts"]:
            found.append(f"arrow {number} goes back in time")
        if (begin["name"], begin.get("cat")) != (end["name"], end.get("cat")):
            found.append(f"arrow {number} has two names")
    return found
