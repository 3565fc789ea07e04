"""The findings as SARIF 2.1.0, which code scanning reads."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from simulator.appcheck.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.appcheck.rules import Rule

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "singletonCheck/v1"


def sarif(report: Mapping[str, Any], app: Path, root: Path, version: str) -> dict[str, Any]:
    """Return the log of one run.

    Args:
        report: the findings, in the form of ``CheckReport.to_json``.
        app: the app's folder.
        root: files are named from here, if the app is below it; else from the app.
        version: of this program.
    """
    rules = list(RULES.values())
    numbers = {rule.id: index for index, rule in enumerate(rules)}
    prefix = app.resolve().relative_to(root.resolve()) if app.resolve().is_relative_to(root.resolve()) else Path()
    driver = {
        "name": "singleton-sim check",
        "version": version,
        "semanticVersion": version,
        "rules": [_rule(rule) for rule in rules],
    }
    results = [_result(finding, numbers, prefix, app) for finding in report["findings"]]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    page = f"docs/{rule.page}"
    return {
        "id": rule.id,
        "name": "".join(part.capitalize() for part in rule.id.split("-")),
        "shortDescription": {"text": rule.means.partition(". ")[0].removesuffix(".")},
        "fullDescription": {"text": rule.means},
        "help": {
            "text": f"{rule.means} {rule.remedy} See {page}.",
            "markdown": f"{rule.means}\n\n**What to do.** {rule.remedy}\n\nMore is said in `{page}`.",
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": ["azure-functions", "singleton"]},
    }


def _result(finding: Mapping[str, Any], numbers: Mapping[str, int], prefix: Path, app: Path) -> dict[str, Any]:
    # Code scanning drops results without a place.
    usual = "host.json" if (app / "host.json").is_file() else "function_app.py"
    outside = finding["file"] is None or Path(finding["file"]).is_absolute()  # a package's file is in no repository
    uri = quote((prefix / (usual if outside else finding["file"])).as_posix())
    whose = f"{finding['function']}: " if finding["function"] else ""
    told = "\n".join((finding["id"], uri, finding["function"] or "", finding["message"]))
    return {
        "ruleId": finding["id"],
        "ruleIndex": numbers[finding["id"]],
        "level": finding["severity"],
        "message": {"text": f"{whose}{finding['message']}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 1 if outside else finding["line"]},
                }
            }
        ],
        "partialFingerprints": {_FINGERPRINT: sha256(told.encode()).hexdigest()[:32]},
    }
