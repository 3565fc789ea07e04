"""Write deploy/workbook.json, for Azure Monitor, and deploy/grafana.json, for Prometheus: `python -m tools.dashboards`.

Both show the same panels. The workbook asks the queries of deploy/queries; Grafana asks for the same metrics by the
names that OpenTelemetry's exporter to Prometheus gives them. With `--check` nothing is written; exit code 1 tells that
a file is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

DEPLOY: Final = Path(__file__).resolve().parent.parent / "deploy"
WORKBOOK: Final = DEPLOY / "workbook.json"
GRAFANA: Final = DEPLOY / "grafana.json"
_HOUR: Final = 3_600_000
_INSIGHTS: Final = {"queryType": 0, "resourceType": "microsoft.insights/components"}
_BY: Final = "sum by (singleton_function)"


class Panel(NamedTuple):
    """A panel: its query for the workbook, what is added to it and how it is drawn; and the same for Grafana."""

    title: str
    in_grafana: str
    query: str
    more: str
    drawn: str
    prometheus: str
    legend: str
    unit: str


def _often(metric: str) -> str:
    """Return how long it took nineteen of twenty times, at most."""
    rate = f'rate(singleton_lock_{metric}_seconds_bucket{{singleton_mode="function"}}[$__rate_interval])'
    return f"histogram_quantile(0.95, sum by (singleton_function, le) ({rate}))"


def _of_attempts() -> str:
    """Return which share of the attempts ended without the lock, also of a function that never got one."""
    acquired, contended = (
        f'{_BY} (rate(singleton_lock_{each}_total{{singleton_mode="function"}}[$__rate_interval]))'
        for each in ("acquired", "contended")
    )
    return f"100 * {contended} / ({contended} + ({acquired} or 0 * {contended}))"


FUNCTION: Final = "{{singleton_function}}"
PANELS: Final = (
    Panel(
        "Longest wait for a lock, by function",
        "Wait for a lock, 95th percentile, by function",
        *("waits", "| project timestamp, function, longest", "timechart"),
        *(_often("wait"), FUNCTION, "s"),
    ),
    Panel(
        "Longest hold, by function",
        "Hold, 95th percentile, by function",
        *("held-too-long", "", "barchart"),
        *(_often("hold"), FUNCTION, "s"),
    ),
    Panel(
        *2 * ("Contention: attempts that ended without the lock, in percent",),
        *("contention", "", "barchart"),
        *(_of_attempts(), FUNCTION, "percent"),
    ),
    Panel(
        *2 * ("Lost holds, by reason",),
        *("lost-holds", "", "table"),
        "sum by (singleton_function, singleton_reason) "
        '(increase(singleton_lock_lost_total{singleton_reason!="closed"}[$__rate_interval]))',
        *("{{singleton_function}}: {{singleton_reason}}", "short"),
    ),
    Panel(
        *2 * ("Held now, by function and instance",),
        *("holders-now", "", "table"),
        *("singleton_lock_held_seconds", "{{singleton_function}} on {{instance}}", "s"),
    ),
    Panel(
        "Messages moved to a poison queue",
        "Bodies that failed, by function",
        *("poison", "", "table"),
        f'{_BY} (increase(singleton_processing_count_total{{singleton_outcome="error"}}[$__rate_interval]))',
        *(FUNCTION, "short"),
    ),
    Panel(
        *2 * ("Requests to the storage, by operation and status",),
        *("storage-requests", '| project timestamp, what = strcat(operation, " ", status), requests', "timechart"),
        "sum by (singleton_operation, singleton_status) (rate(singleton_storage_requests_total[$__rate_interval]))",
        *("{{singleton_operation}} {{singleton_status}}", "reqps"),
    ),
)


def workbook() -> dict[str, Any]:
    """Return the workbook as Azure Monitor keeps it."""
    time_range = {
        "id": "5d3c6b0e-6f0b-4f0e-9a43-0f1a52b3c7d1",
        "version": "KqlParameterItem/1.0",
        "name": "TimeRange",
        "label": "Time range",
        "type": 4,
        "isRequired": True,
        "value": {"durationMs": 4 * _HOUR},
        "typeSettings": {
            "selectableValues": [{"durationMs": hours * _HOUR} for hours in (1, 4, 24, 72, 168)],
            "allowCustom": True,
        },
    }
    head = {"version": "KqlParameterItem/1.0", "parameters": [time_range], "style": "pills", **_INSIGHTS}
    items = [{"type": 9, "content": head, "name": "time range"}, *map(_step, PANELS)]
    return {"version": "Notebook/1.0", "items": items, "$schema": _SCHEMA}


_SCHEMA: Final = "https://github.com/Microsoft/Application-Insights-Workbooks/blob/master/schema/workbook.json"


def _step(panel: Panel) -> dict[str, Any]:
    content = {
        "version": "KqlItem/1.0",
        "query": (DEPLOY / "queries" / f"{panel.query}.kql").read_text("utf-8") + panel.more,
        "size": 0,
        "title": panel.title,
        "timeContextFromParameter": "TimeRange",
        **_INSIGHTS,
        "visualization": panel.drawn,
    }
    return {"type": 3, "content": content, "customWidth": "50", "name": panel.query}


def grafana() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "title": "singleton: locks",
        "uid": "singleton-locks",
        "schemaVersion": 39,
        "time": {"from": "now-4h", "to": "now"},
        "refresh": "1m",
        "templating": {
            "list": [{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.in_grafana,
        "datasource": source,
        "gridPos": {"x": 12 * (number % 2), "y": 8 * (number // 2), "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": source, "expr": panel.prometheus, "legendFormat": panel.legend}],
    }


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` tell whether they are up to date."""
    stale = 0
    for file, content in ((WORKBOOK, workbook()), (GRAFANA, grafana())):
        text = json.dumps(content, indent=2) + "\n"
        if "--check" not in arguments:
            file.write_text(text, "utf-8")
        stale |= file.read_text("utf-8") != text
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
