"""Resources of a Bicep file, held against the shapes that Microsoft's own SDKs have for them.

The SDKs' models are made from the specifications of Azure's services, as Bicep's own types are. What is found here:
a property that the service does not know, one that it demands and that is not there, a word that it does not allow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import azure.mgmt.authorization.v2022_04_01.models as authorization
import azure.mgmt.monitor.models as monitor
from pycep import BicepParser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import ModuleType

_RULE: Final = "Microsoft.Insights/scheduledQueryRules@2023-12-01"
_DEFINITION: Final = "Microsoft.Authorization/roleDefinitions@2022-04-01"
_ASSIGNMENT: Final = "Microsoft.Authorization/roleAssignments@2022-04-01"
_MODELS: Final[Mapping[str, tuple[ModuleType, str]]] = {
    _RULE: (monitor, "ScheduledQueryRuleResource"),
    _DEFINITION: (authorization, "RoleDefinition"),
    _ASSIGNMENT: (authorization, "RoleAssignmentCreateParameters"),
}
_PLAIN: Final[Mapping[str, frozenset[str]]] = {
    "Microsoft.Insights/components@2020-02-02": frozenset(),
    "Microsoft.Insights/workbooks@2022-04-01": frozenset(
        {"location", "kind", *map("properties.{}".format, ("displayName", "category", "sourceId", "serializedData"))}
    ),
    "Microsoft.Storage/storageAccounts@2023-05-01": frozenset(),
    "Microsoft.Storage/storageAccounts/blobServices@2023-05-01": frozenset(),
    "Microsoft.Storage/storageAccounts/queueServices@2023-05-01": frozenset(),
    "Microsoft.Storage/storageAccounts/queueServices/queues@2023-05-01": frozenset(),
    "Microsoft.Storage/storageAccounts/blobServices/containers@2023-05-01": frozenset({"properties.publicAccess"}),
}
"""Types without such a model, and the properties that we use of them."""
_OF_BICEP: Final = frozenset({"name", "scope", "parent"})
_WORDS: Final[Mapping[str, type[Any]]] = {
    "properties.criteria.allOf.operator": monitor.ConditionOperator,
    "properties.criteria.allOf.timeAggregation": monitor.TimeAggregation,
    "kind": monitor.Kind,
}


@dataclass(frozen=True, slots=True)
class Bicep:
    """A file as the parser reads it."""

    text: str
    tree: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """By name: decorators, type and default."""
        found: Mapping[str, Any] = self.tree.get("parameters", {})
        return found

    def resources(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Yield the name, the type with its version, and the body of each; of a loop the body that it repeats."""
        for name, resource in self.tree["resources"].items():
            body = resource["config"]
            while "config" in body:
                body = body["config"]
            yield name, f"{resource['type']}@{resource['api_version']}", body


def parsed(path: Path) -> Bicep:
    """Read a file; the parser raises where it is no Bicep."""
    text = path.read_text("utf-8")
    return Bicep(text, BicepParser().parse(text=text))


def faults(type_: str, body: Mapping[str, Any]) -> list[str]:
    """Say what the service would not take."""
    if type_ in _PLAIN:
        known = dict.fromkeys(_PLAIN[type_])
        return [f"{path} is unknown" for path, _ in _leaves(body, "", known) if path not in {*known, *_OF_BICEP}]
    if type_ not in _MODELS:
        return [f"{type_}: no shape is known for it"]
    module, model = _MODELS[type_]
    return list(_against(module, model, {key: body[key] for key in body if key not in _OF_BICEP}, ""))


def _against(module: ModuleType, model: str, body: Mapping[str, Any], where: str) -> Iterator[str]:
    shape = getattr(module, model)
    attributes = {spec["key"]: (name, spec["type"]) for name, spec in shape._attribute_map.items()}
    rules = getattr(shape, "_validation", {})
    there = dict(_leaves(body, "", attributes))
    for key, value in there.items():
        full = f"{where}{key}"
        if key not in attributes:
            yield f"{full} is unknown"
            continue
        name, kind = attributes[key]
        if rules.get(name, {}).get("readonly"):
            yield f"{full} can't be set"
        words = _WORDS.get(full)
        if words is not None and value not in [word.value for word in words]:
            yield f"{full} is {value!r}"
        inner = re.fullmatch(r"\[?(\w+?)\]?", kind)
        if inner and hasattr(module, inner[1]) and isinstance(value, dict | list):
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, dict) and not _is_expression(one):
                    yield from _against(module, inner[1], one, f"{full}.")
    for key, (name, _) in attributes.items():
        if rules.get(name, {}).get("required") and key not in there:
            yield f"{where}{key} is missing"


def _leaves(body: Mapping[str, Any], prefix: str, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a model has as one attribute: ``properties.criteria``, not what is in it."""
    for key, value in body.items():
        path = f"{prefix}{key}"
        opens = any(other.startswith(f"{path}.") for other in known)
        if isinstance(value, dict) and path not in known and opens:
            yield from _leaves(value, f"{path}.", known)
        else:
            yield path, value


def _is_expression(value: Mapping[str, Any]) -> bool:
    """Tell what is worked out at deployment from an object that is written out."""
    return isinstance(value.get("operator"), dict) or isinstance(value.get("function"), dict)
