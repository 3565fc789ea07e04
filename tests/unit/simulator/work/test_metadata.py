"""What may come with a message of each trigger: what is taken here, the worker takes too; what is wrong is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.delivery import Delivery, delivered_input
from simulator.work.own import _NAMES, check_metadata
from simulator.work.scenario import ScenarioError

SAMPLES = {
    "text": "a",
    "number": 7,
    "time": "2026-11-24T10:30:00.1234567Z",
    "span": "00:00:30",
    "object": {"a": 1},
    "list": [{"Key": "a", "Value": "YQ=="}],
}


def decoded(trigger: str, metadata: dict[str, Any]) -> Any:
    where = Parameter(
        name="it", binding=f"{trigger}Trigger", converter=f"{trigger}Trigger", settings={"path": "a/{name}"}
    )
    told: dict[str, Any] = {"count": 1, "sequence": 1, "enqueued": 1.0, "token": "", "until": 9.0}
    return delivered_input(where, Delivery(id="d", body=json.dumps({"a": 1}), metadata=metadata, **told))


@pytest.mark.parametrize("trigger", [trigger for trigger, names in _NAMES.items() if names])
def test_what_is_taken_is_taken_by_the_worker_as_well(trigger: str) -> None:
    whole = {name: SAMPLES[kind] for name, kind in _NAMES[trigger].items()}
    if trigger == "blob":
        whole |= {"path": "a/b", "Properties": {"Length": 3}}
    check_metadata(trigger, whole, "line 1")
    assert decoded(trigger, whole) is not None


@pytest.mark.parametrize(
    "time", ["2026-11-24T10:30:00", "2026-11-24T10:30:00Z", "2026-11-24T10:30:00.5+00:00", "2026-11-24T10:30:00.25"]
)
def test_a_time_is_one_that_the_worker_reads(time: str) -> None:
    check_metadata("serviceBus", {"EnqueuedTimeUtc": time}, "line 1")
    assert decoded("serviceBus", {"EnqueuedTimeUtc": time}).enqueued_time_utc.year == 2026


def test_a_cloud_event_has_extensions_and_events_of_an_iot_hub_have_names_of_theirs() -> None:
    cloud = {"specversion": "1.0", "source": "/s", "time": "2026-11-24T10:30:00Z", "tenant": "a", "number": 3}
    check_metadata("eventGrid", cloud, "line 1")
    assert decoded("eventGrid", cloud).source == "/s"
    check_metadata("eventHub", {"iothub-connection-device-id": "d"}, "line 1")
    check_metadata("redisList", {"Whatever": None}, "line 1")  # not known here


@pytest.mark.parametrize(
    ("trigger", "metadata", "words"),
    [
        ("serviceBus", {"SessionID": "a"}, '"SessionID" of its metadata is unknown to serviceBus; did you'),
        ("serviceBus", {"SessionID": "a"}, "did you mean 'SessionId'?; it knows SessionId, MessageId"),
        ("serviceBus", {"SessionId": 7}, '"SessionId" of its metadata is 7: it must be a text'),
        ("serviceBus", {"SessionId": None}, '"SessionId" of its metadata is null: it must be a text'),
        (
            "serviceBus",
            {"DeliveryCount": "two"},
            "\"DeliveryCount\" of its metadata is 'two': it must be a whole number",
        ),
        ("serviceBus", {"DeliveryCount": True}, "is true: it must be a whole number"),
        ("serviceBus", {"EnqueuedTimeUtc": "yesterday"}, 'it must be a time, such as "2026-11-24T10:30:00Z"'),
        ("serviceBus", {"EnqueuedTimeUtc": "2026-13-24T10:30:00Z"}, "it must be a time"),
        ("serviceBus", {"TimeToLive": "soon"}, 'it must be a time span, such as "00:00:30"'),
        (
            "serviceBus",
            {"ApplicationProperties": [1]},
            '"ApplicationProperties" of its metadata is [1]: it must be an obj',
        ),
        ("eventHub", {"SequenceNumber": 1.5}, '"SequenceNumber" of its metadata is 1.5'),
        ("eventHub", {"SystemProperties": "a"}, "it must be an object"),
        ("eventHub", {"partitionKey": "a"}, "did you mean 'PartitionKey'?"),
        ("eventGrid", {"eventTime": 5}, '"eventTime" of its metadata is 5: it must be a time'),
        ("eventGrid", {"data": {}}, '"data" of its metadata is unknown to eventGrid'),
        ("eventGrid", {"specversion": "1.0", "time": "now"}, '"time" of its metadata'),
        ("eventGrid", {"specversion": "1.0", "Tenant": "a"}, '"Tenant" of its metadata is unknown'),
        ("eventGrid", {"specversion": "1.0", "tenant": {}}, "an extension of a cloud event must be a text"),
        ("kafka", {"Partition": "first"}, '"Partition" of its metadata'),
        ("kafka", {"Headers": {}}, "it must be a list"),
        ("blob", {"name": "a"}, '"name" of its metadata is unknown to blob'),
        ("blob", {"Properties": {"Length": "long"}}, '"Properties.Length" of its metadata is'),
        ("sql", {"Operation": 1}, "sql has no metadata: leave it out"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(trigger: str, metadata: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match="line 3: ") as caught:
        check_metadata(trigger, metadata, "line 3")
    assert words in str(caught.value)
