"""What `deploy/` holds: Bicep that a parser reads, of shapes that the services take, with queries over our metrics.

No Bicep compiler can be had from the registries. So the grammar is that of a parser (pycep), the shapes are those of
Microsoft's SDKs (`tests/support/arm.py`), and the queries go to Microsoft's own analyzer of Kusto in
`tests/integration/test_queries.py`.
"""

from __future__ import annotations

import asyncio
import logging
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from singleton.observing.metrics import METRICS, Metric
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.arm import faults, parsed
from tests.support.inline import InlineHost
from tests.support.world import occupy, until, virtual
from tools import dashboards
from tools.picture_of_metrics import Point, prometheus

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
FILES = sorted(DEPLOY.glob("*.bicep"))
QUERIES = sorted((DEPLOY / "queries").glob("*.kql"))
PAGES = [ROOT / "docs" / "deploy.md", ROOT / "docs" / "operations.md"]
SHOWN = re.compile(r"^```kusto\n(.*?)^```", re.MULTILINE | re.DOTALL)

YOURS = {"applicationInsightsName", "storageAccountName"}
"""The names of what is there already: nobody can guess them."""

NAMES = {metric.name for metric in METRICS} | {each for metric in METRICS for each in metric.attributes}
"""Metrics and attributes that are recorded."""


def named(path: Path) -> str:
    return path.name


def queries_shown() -> list[str]:
    return [query for page in PAGES for query in SHOWN.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize("file", FILES, ids=named)
def test_each_resource_has_the_shape_that_its_service_takes(file: Path) -> None:
    wrong = {name: faults(type_, body) for name, type_, body in parsed(file).resources()}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("file", FILES, ids=named)
def test_each_parameter_says_what_it_is_and_has_a_default(file: Path) -> None:
    for name, parameter in parsed(file).parameters.items():
        told = [one["argument"] for one in parameter["decorators"] if one["type"] == "description"]
        assert told, name
        assert told[0].endswith("."), name
        assert (parameter["default"] is None) == (name in YOURS), name


@pytest.mark.parametrize("file", FILES, ids=named)
def test_each_parameter_is_used_and_documented(file: Path) -> None:
    bicep, page = parsed(file), PAGES[0].read_text("utf-8")
    for name in bicep.parameters:
        assert len(re.findall(rf"\b{name}\b", bicep.text)) > 1, f"{name} is not used"
        assert f"| `{name}` |" in page, f"{name} is not in docs/deploy.md"


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_each_query_is_shown_as_it_is(query: Path) -> None:
    assert query.read_text("utf-8") in queries_shown()


def test_no_other_query_is_shown() -> None:
    assert set(queries_shown()) == {query.read_text("utf-8") for query in QUERIES}


def test_an_alert_runs_queries_that_are_there() -> None:
    text = (DEPLOY / "alerts.bicep").read_text("utf-8")
    loaded = re.findall(r"loadTextContent\('queries/([\w-]+\.kql)'\)", text)
    assert len(loaded) == 6
    assert set(loaded) <= {query.name for query in QUERIES}


def test_an_alert_measures_columns_that_its_query_has() -> None:
    rules: list[dict[str, Any]] = parsed(DEPLOY / "alerts.bicep").tree["variables"]["rules"]["value"]
    for rule in rules:
        query = (DEPLOY / "queries" / f"{rule['name']}.kql").read_text("utf-8")
        wanted = {rule["measure"], *(by.removeprefix("by").lower() for by in rule["dimensions"])}
        for column in wanted:
            assert re.search(rf"\b{column}\b", query), f"{rule['name']}: no column {column}"


def test_the_function_that_a_rule_asks_for_takes_the_place_of_the_one_in_its_query() -> None:
    assert (DEPLOY / "queries" / "no-success.kql").read_text("utf-8").count("import_eligibility") == 1
    assert "'import_eligibility', function)" in (DEPLOY / "alerts.bicep").read_text("utf-8")


@pytest.mark.parametrize("query", QUERIES, ids=named)
def test_a_query_asks_for_metrics_and_attributes_that_there_are(query: Path) -> None:
    names = set(re.findall(r'"(singleton\.[\w.]+)"', query.read_text("utf-8")))
    assert names <= NAMES
    metrics = [metric for metric in METRICS if metric.name in names]
    asked = names - {metric.name for metric in metrics}
    assert all(asked <= {*metric.attributes} for metric in metrics), "each of these metrics has each attribute"


def test_workbook_and_dashboard_are_those_that_the_panels_make() -> None:
    assert dashboards.main(["--check"]) == 0, "run python -m tools.dashboards"


def test_the_workbook_has_what_a_workbook_may_have() -> None:
    """Microsoft's schema asks for a type, a content, texts as names and widths. What the portal reads is more."""
    workbook = dashboards.workbook()
    assert (workbook["version"], {*workbook}) == ("Notebook/1.0", {"version", "items", "$schema"})
    head, *panels = workbook["items"]
    (period,) = head["content"]["parameters"]
    assert (head["type"], period["type"]) == (9, 4), "parameters, one of them a range of time"
    assert str(uuid.UUID(period["id"])) == period["id"]
    assert period["value"] in period["typeSettings"]["selectableValues"]
    assert len({item["name"] for item in workbook["items"]}) == len(workbook["items"])
    for item in panels:
        assert {*item} == {"type", "content", "customWidth", "name"}
        assert (item["type"], 0 < int(item["customWidth"]) <= 100) == (3, True), "a query, a share of the width"
        content = item["content"]
        assert content["version"] == "KqlItem/1.0"
        assert content["timeContextFromParameter"] == period["name"]
        assert content["visualization"] in {"timechart", "barchart", "table"}
        assert (content["queryType"], content["size"]) == (0, 0), "logs, of medium height"
        assert content["resourceType"] == "microsoft.insights/components"
        assert item["name"] in {query.stem for query in QUERIES}


@pytest.mark.parametrize(("name", "file"), [("workbook", dashboards.workbook()), ("grafana", dashboards.grafana())])
def test_the_pictures_have_the_panels_of_the_files(name: str, file: dict[str, Any]) -> None:
    titles = [item["content"]["title"] for item in file.get("items", [])[1:]]
    titles += [panel["title"] for panel in file.get("panels", [])]
    for ends in ("light", "dark"):
        drawn = (ROOT / "docs" / "_static" / f"{name}-{ends}.svg").read_text("utf-8")
        assert re.findall(r'font-weight="bold" fill="#\w+">([^<]+)<', drawn) == titles


POINTS = [
    Point(
        10.0,
        "host-1",
        "singleton.lock.acquired",
        {"singleton.function": "f", "singleton.mode": "function"},
        {"value": 3},
    ),
    Point(
        10.0,
        "host-1",
        "singleton.lock.contended",
        {"singleton.function": "f", "singleton.mode": "function"},
        {"value": 1},
    ),
    Point(
        10.0,
        "host-1",
        "singleton.lock.contended",
        {"singleton.function": "f", "singleton.mode": "listener"},
        {"value": 9},
    ),
    Point(
        70.0, "host-1", "singleton.lock.lost", {"singleton.function": "f", "singleton.reason": "closed"}, {"value": 1}
    ),
    Point(
        70.0, "host-2", "singleton.lock.lost", {"singleton.function": "f", "singleton.reason": "expired"}, {"value": 2}
    ),
    Point(
        70.0, "host-2", "singleton.lock.held", {"singleton.function": "f", "singleton.mode": "function"}, {"value": 7}
    ),
    Point(
        70.0,
        "host-2",
        "singleton.processing.count",
        {"singleton.function": "f", "singleton.outcome": "error"},
        {"value": 1},
    ),
    Point(
        70.0,
        "host-2",
        "singleton.storage.requests",
        {"singleton.operation": "renew", "singleton.status": "200"},
        {"value": 60},
    ),
    *(
        Point(
            *(10.0, "host-1", f"singleton.lock.{each}", {"singleton.function": "f", "singleton.mode": "function"}),
            {"explicit_bounds": [1.0, 3.0], "bucket_counts": [10, 10, 0]},
        )
        for each in ("wait", "hold")
    ),
]


def test_the_picture_of_grafana_has_what_its_queries_ask_for() -> None:
    assert [prometheus(panel.prometheus, panel.legend, POINTS) for panel in dashboards.PANELS] == [
        {"f": {0: 2.8}},
        {"f": {0: 2.8}},
        {"f": {0: 25.0}},
        {"f: expired": {60: 2}},
        {"f on host-2": {60: 7}},
        {"f": {60: 1}},
        {"renew 200": {60: 1.0}},
    ]


@pytest.mark.parametrize("panel", dashboards.PANELS, ids=lambda panel: panel.query)
def test_grafana_asks_for_names_and_labels_that_the_exporter_to_prometheus_gives(panel: dashboards.Panel) -> None:
    asked = set(re.findall(r"singleton_\w+", f"{panel.prometheus} {panel.legend}"))
    metrics = [metric for metric in METRICS if asked & in_prometheus(metric)]
    labels = asked.difference(*map(in_prometheus, metrics))
    assert metrics
    assert all(labels <= {each.replace(".", "_") for each in metric.attributes} for metric in metrics)


def in_prometheus(metric: Metric) -> set[str]:
    """Return a metric's names there: with the unit in words, unless it is a word in braces, and the kind."""
    name = metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")
    ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
    return {name + end for end in ends[metric.kind]}


@virtual
async def test_the_query_of_long_waits_finds_the_lines_that_tell_of_them(caplog: pytest.LogCaptureFixture) -> None:
    host = InlineHost(MemoryLeaseStore())
    for name in ("orders", "gate/slot-0"):
        await occupy(host.network.service, name, -1)
    with host.here() as locks:
        waits = [asyncio.create_task(locks.acquire("orders")), asyncio.create_task(locks.acquire("gate", limit=1))]
        await until(31)
        for task in waits:
            task.cancel()
        await asyncio.wait(waits)
    query = (DEPLOY / "queries" / "waits-long.kql").read_text("utf-8")
    begins = tuple(re.findall(r'message startswith "([^"]+)"', query))
    (contained,) = re.findall(r'message contains "([^"]+)"', query)
    assert "| where severityLevel == 2\n" in query, "that of a warning"
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sorted(line.split()[0] for line in told) == ["lock", "semaphore"]
    assert all(line.startswith(begins) and contained in line for line in told)


def test_there_is_no_lifecycle_rule() -> None:
    """It would delete locks with state."""
    for file in FILES:
        assert "managementPolicies" not in file.read_text("utf-8")
