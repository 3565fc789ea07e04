"""What a pilot says: what fits into its time, the result of its parts, and nothing that names the account."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.checks.findings import note, unproven, violation
from simulator.checks.reports import CheckResult
from simulator.pilot.assumed.histories import Ask, ServiceAnswer
from simulator.pilot.both_ways import Lived, compare_both_ways
from simulator.pilot.container import Anonymous
from simulator.pilot.pilot_plan import PilotPlan
from simulator.pilot.pilot_report import PilotResult
from simulator.pilot.storm import storm_app, without_storage
from simulator.pilot.traffic import Latency
from simulator.pilot_cli import given_storage
from simulator.work.scenario import ScenarioError
from singleton.settings.connection import resolve_blob_account

KEY = "c2VjcmV0a2V5"
STRING = f"DefaultEndpointsProtocol=https;AccountName=orders;AccountKey={KEY};EndpointSuffix=core.windows.net"
MADE = ServiceAnswer(outcome="ok", state="available", etag_changed=True)


@pytest.mark.parametrize(
    ("seconds", "slow", "timed", "idle", "storm", "left_out"),
    [
        (10, False, False, (), 0, 6),
        (20, True, False, (), 0, 5),
        (115, True, True, (), 0, 4),
        (116, True, True, (), 20, 3),
        (120, True, True, (), 24, 3),
        (300, True, True, (4.0,), 204, 2),
        (1200, True, True, (4.0, 5.0, 10.0), 600, 0),
    ],
)
def test_what_does_not_fit_into_the_time_is_left_out_and_said(
    seconds: float, slow: bool, timed: bool, idle: tuple[float, ...], storm: float, left_out: int
) -> None:
    plan = PilotPlan(seconds=seconds)
    assert (plan.slow, plan.timed, plan.idle, plan.storm) == (slow, timed, idle, storm)
    assert len(plan.left_out()) == left_out
    said = "\n".join(plan.words("singleton-pilot-1"))
    assert "singleton-pilot-1" in said
    assert said.count("Left out") == left_out
    assert f"{plan.requests:,} requests" in said


@pytest.mark.parametrize("seconds", [0, 9.9, 14401, float("nan")])
def test_a_time_out_of_range_is_refused(seconds: float) -> None:
    with pytest.raises(ScenarioError, match="--for"):
        PilotPlan(seconds=seconds)


def result(*findings: object) -> PilotResult:
    part = CheckResult(name="part", promise="It holds.", looked_at={"things": 3}, findings=findings)  # type: ignore[arg-type]
    latency = Latency(way="direct", operation="renew", requests=25, median=1.0, p95=2.0, longest=3.0)
    return PilotResult(parts=[part], latencies=[latency], left_out=["tea"], requests=7, seconds=1.0)


@pytest.mark.parametrize(
    ("findings", "outcome", "mark"),
    [
        ([], "holds", "good"),
        ([note("n")], "holds", "good"),
        ([note("n"), unproven("u")], "unknown", "open"),
        ([unproven("u"), violation("v")], "failed", "bad"),
    ],
)
def test_the_worst_finding_decides_and_what_is_unknown_is_not_fine(
    findings: list[object], outcome: str, mark: str
) -> None:
    found = result(*findings)
    assert (found.outcome, found.headline().mark, next(found.lines()).mark) == (outcome, mark, mark)


@pytest.mark.parametrize(
    "settings",
    [
        {"ORDERS": STRING},
        {"ORDERS": "BlobEndpoint=https://orders.blob.core.windows.net;SharedAccessSignature=sv=1&sig=c2VjcmV0a2V5"},
        {"ORDERS__blobServiceUri": "https://orders.blob.core.windows.net"},
    ],
)
def test_the_report_has_neither_the_account_nor_a_secret(settings: dict[str, str]) -> None:
    anonymous = Anonymous(resolve_blob_account("ORDERS", settings))
    words = f"orders says: https://orders.blob.core.windows.net/orders?sig={KEY} AccountKey={KEY}; 7 reorders"
    words += "; Connect call failed ('20.60.1.2', 443), ('2603:1030::1', 443, 0, 0), 20.60.1.2:443, version 1.20.3"
    found = result(violation(words))
    for text in (found.as_json(anonymous), found.as_html(anonymous)):
        assert KEY not in text
        assert "orders." not in text
        assert "account-1 says" in text
        assert "reorders" in text
        assert "version 1.20.3" in text
        assert not re.search(r"20\.60\.1\.2|2603:1030", text)
    told = json.loads(found.as_json(anonymous))
    assert (told["account"], told["outcome"], told["left_out"]) == ("account-1", "failed", ["tea"])
    assert told["parts"][0]["findings"][0]["outcome"] == "failed"


def test_an_account_with_the_name_of_a_word_of_the_report_changes_no_script_and_no_key() -> None:
    account = resolve_blob_account("C", {"C__accountName": "parts"})
    found = result(note("parts"))
    told = json.loads(found.as_json(Anonymous(account)))
    assert told["parts"][0]["findings"][0]["said"] == "account-1"
    other = Anonymous(resolve_blob_account("C", {"C__accountName": "nobody"}))
    pages = [re.sub(r"<script [^>]*json.*?</script>", "", found.as_html(each)) for each in (other, Anonymous(account))]
    assert pages[0] == pages[1]
    assert "<script" in pages[0]


def test_an_identity_reaches_the_hosts_as_it_is_set() -> None:
    settings = {"ORDERS__accountName": "orders", "ORDERS__credential": "managedidentity", "ORDERS__clientId": "c-1"}
    storage = given_storage("ORDERS", resolve_blob_account("ORDERS", settings), settings)
    under = {f"AzureWebJobsStorage{ending}": value for ending, value in storage.settings.items()}
    assert resolve_blob_account("", under) == resolve_blob_account("ORDERS", settings)
    assert given_storage("O", resolve_blob_account("O", {"O": STRING}), {}).settings[""].startswith("DefaultEndpoints")


def test_the_app_of_the_storm_has_its_locks_in_the_container() -> None:
    with storm_app("singleton-pilot-1") as folder:
        assert json.loads(Path(folder / "host.json").read_text())["singleton"]["container"] == "singleton-pilot-1"
    assert not folder.exists()


def test_a_refusal_under_another_code_of_the_same_meaning_is_a_note() -> None:
    asks = [Ask(call="create"), Ask(call="release")]
    refused = ServiceAnswer(outcome="409 LeaseNotPresentWithLeaseOperation", state="available")
    lived = Lived(asks=asks, answers={"direct": [MADE, refused], "sdk": [MADE, refused]}, timed=False)
    (finding,) = compare_both_ways([lived], 0)[1].findings
    assert (finding.kind, finding.text.startswith("another code: ")) == ("note", True)


@pytest.mark.parametrize(
    ("direct", "sdk", "kinds"),
    [
        (MADE, MADE, []),
        (MADE, ServiceAnswer(outcome="409 LeaseAlreadyPresent", state="leased"), ["violation", "violation"]),
        (MADE, ServiceAnswer(outcome="503 ServerBusy", state="available"), ["unproven", "unproven"]),
        (ServiceAnswer(outcome="403 AuthorizationFailure", state="403"), MADE, ["unproven", "unproven"]),
    ],
)
def test_both_ways_are_compared_with_each_other_and_the_model_unless_an_answer_says_nothing(
    direct: ServiceAnswer, sdk: ServiceAnswer, kinds: list[str]
) -> None:
    lived = Lived(asks=[Ask(call="create")], answers={"direct": [direct], "sdk": [sdk]}, timed=False)
    found = compare_both_ways([lived], 0)
    assert [finding.kind for part in found for finding in part.findings] == kinds


@pytest.mark.parametrize(("name", "kinds"), [("overlaps", ["violation"]), ("losses", ["unproven"])])
def test_of_a_storm_whose_storage_died_only_what_no_outage_excuses_is_a_failure(name: str, kinds: list[str]) -> None:
    told = CheckResult(name=name, promise="", looked_at={}, findings=(violation("v"),))
    run: Any = SimpleNamespace(verdict=SimpleNamespace(checks=[told]))
    part, kept = without_storage(replace(told, name="storm"), run)
    assert [finding.kind for finding in part.findings] == kinds
    assert (kept is run) == (name == "overlaps")
