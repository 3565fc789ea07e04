"""``functionTimeout``, as the Functions host reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from singleton.settings.hostjson import function_timeout

if TYPE_CHECKING:
    from pathlib import Path

SETTING = "AzureFunctionsJobHost__functionTimeout"


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, 1800),
        ({"WEBSITE_SKU": "Dynamic"}, 300),
        ({"WEBSITE_SKU": "dynamic", "WEBSITE_INSTANCE_ID": "i"}, 300),
        ({"CONTAINER_NAME": "c"}, 300),
        ({"CONTAINER_NAME": "c", "WEBSITE_INSTANCE_ID": "i"}, 1800),
        ({"CONTAINER_NAME": "c", "MANAGED_ENVIRONMENT": "m"}, 1800),
        ({"CONTAINER_NAME": "c", "LEGION_SERVICE_HOST": "l"}, 1800),
        ({"WEBSITE_SKU": "FlexConsumption", "CONTAINER_NAME": "c"}, 1800),
        ({"WEBSITE_SKU": "ElasticPremium", "WEBSITE_INSTANCE_ID": "i"}, 1800),
        ({"KUBERNETES_SERVICE_HOST": "k", "POD_NAMESPACE": "n"}, 1800),
    ],
)
def test_without_one_the_plan_decides(settings: dict[str, str], seconds: float, tmp_path: Path) -> None:
    """H-32."""
    assert function_timeout(tmp_path, settings) == (seconds, "the default of its plan")
    (tmp_path / "host.json").write_text('{"version": "2.0", "functionTimeout": null}')
    assert function_timeout(tmp_path, settings) == (seconds, "the default of its plan")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("00:10:00", 600),
        ("00:00:01", 1),
        ("1.00:00:00", 86_400),
        # No limit where the plan knows none.
        ("-1", None),
        (-1, None),
        ("-1.00:00:00", None),
        # The host does not start (H-85).
        ("00:00:00", None),
        ("-00:05:00", None),
        ("soon", None),
        (5, None),
        (True, None),
    ],
)
def test_it_is_a_time_span_in_host_json_or_an_app_setting_over_it(
    value: object, seconds: float, tmp_path: Path
) -> None:
    """H-31."""
    text = json.dumps({"version": "2.0", "FunctionTimeout": value})
    (tmp_path / "host.json").write_text(f"{text[:-1]}, // as the host reads it\n}}")
    found = function_timeout(tmp_path, {})
    assert (found and found.seconds) == seconds
    assert found is None or found.source == "host.json"

    over = function_timeout(tmp_path, {SETTING.replace("__", ":").upper(): "00:07:00"})
    assert over == (420, f"app setting {SETTING}")
    assert function_timeout(None, {SETTING: "00:07:00"}) == over
