"""The shapes that Bicep files are held against find what a service would refuse."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark.exceptions import LarkError

from tests.support.arm import faults, parsed

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
ALERTS = (DEPLOY / "alerts.bicep").read_text("utf-8")
ROLES = (DEPLOY / "roles.bicep").read_text("utf-8")


def found(text: str, tmp_path: Path) -> set[str]:
    file = tmp_path / "tried.bicep"
    file.write_text(text, "utf-8")
    return {fault for _, type_, body in parsed(file).resources() for fault in faults(type_, body)}


@pytest.mark.parametrize(
    ("text", "right", "wrong", "fault"),
    [
        (ALERTS, "    severity: 1", "    sevrity: 1", "properties.sevrity is unknown"),
        (ALERTS, "  location: location\n", "", "location is missing"),
        (ALERTS, "operator: 'LessThan'", "operator: 'Under'", "properties.criteria.allOf.operator is 'Under'"),
        (
            ALERTS,
            "minFailingPeriodsToAlert: 1",
            "minFailingPeriods: 1",
            "properties.criteria.allOf.failingPeriods.minFailingPeriods is unknown",
        ),
        (ALERTS, "scheduledQueryRules@2023-12-01' =", "scheduledQueryRule@2023-12-01' =", "no shape is known for it"),
        (ROLES, "        dataActions: [", "        dataAction: [", "properties.permissions.dataAction is unknown"),
        (ROLES, "    principalId: appPrincipalId\n", "", "properties.principalId is missing"),
        (ROLES, "publicAccess: 'None'", "public: false", "properties.public is unknown"),
    ],
)
def test_what_a_service_would_refuse_is_found(text: str, right: str, wrong: str, fault: str, tmp_path: Path) -> None:
    assert right in text
    assert any(fault in one for one in found(text.replace(right, wrong), tmp_path))


def test_what_is_no_bicep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LarkError):
        found(ALERTS.replace("criteria: {", "criteria: ", 1), tmp_path)
