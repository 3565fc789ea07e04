"""Input and output bindings of guarded functions: the host reads and writes their data while nobody holds the lock."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import product
from typing import TYPE_CHECKING, Final

from simulator.appcheck.rules import RULES
from simulator.appcheck.source_lines import definition
from singleton.base.appsettings import normalised, setting
from singleton.base.callables import annotations_of
from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted
from singleton.settings.connection import DEFAULT_CONNECTION, configured

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.appcheck.checked_app import AppSettings, Binding, Subject
    from simulator.appcheck.finding import Finding
    from singleton.settings.connection import StorageService

_STORAGE: Final[Mapping[str, StorageService]] = {"blob": "blob", "table": "table"}
_UPSERTING: Final = frozenset({"blob", "cosmosdb", "daprstate", "mysql", "redis", "sql"})
"""Kinds of bindings with an output that replaces the data. The output of a table only adds an entity."""
_CHANGING: Final = _UPSERTING | {"kusto", "table"}
"""Kinds of bindings with an input of data that may change."""
_PARTS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "blob": (("path",),),
    "cosmosdb": (("databasename",), ("containername", "collectionname")),
    "daprstate": (("statestore",), ("key",)),
    "table": (("tablename",), ("partitionkey",), ("rowkey",)),
}
"""The settings that name a target, with their older names."""
_REDIS_SETS: Final = re.compile(r"(?:get|h|hm|json\.|m|p)?set(?:ex|range)?", re.IGNORECASE)
"""Commands of Redis that replace a value: ``SET``, ``SETEX``, ``HSET``, …."""
_PLACES: Final = {
    "accountendpoint": "account",
    "server": "server",
    **dict.fromkeys(("addr", "address", "data source", "network address"), "server"),
    "database": "database",
    "initial catalog": "database",
}
"""The parts of a connection string that say where the data is, without the way in."""
_DEFAULT_PORT: Final = re.compile(r"\Atcp:|(?::443|,1433)?/?\Z")
_CLIENTS: Final = ("Client", "Proxy")
"""The ends of the names of SDK types that read nothing before the body asks: ``BlobClient``, ``ContainerProxy``."""
_NEW: Final = re.compile(r"\{(?:sys\.)?rand-?guid\b", re.IGNORECASE)
_BRACED: Final = re.compile(r"\{[^{}]*\}")
_PERCENT: Final = re.compile(r"%([^%]+)%")
_FROM: Final = re.compile(r"\b(?:from|join|into|update|merge)\s+([\w$#@.]+)")
_QUOTES: Final = str.maketrans("", "", '[]`"')
_COMMENT: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)


def check_data(subject: Subject) -> Iterator[Finding]:
    """Yield the bindings of a guarded function whose data the lock does not cover, with what may be lost."""
    yield from _sent_again(subject)
    guards = [each.decorator for each in subject.guards] + ["@ordered"] * (subject.inbox is not None)
    guards += ["the lock client's decorator"] * subject.is_locked
    if not guards:
        return
    guard, app = guards[0], subject.app
    read = [each for each in subject.bindings if not each.is_output and _kind(each) in _CHANGING]
    written = [each for each in subject.bindings if each.is_output and _overwrites(each)]
    told = set()
    added = [each for each in subject.bindings if each.is_output and _kind(each) == "table"]
    for source, output in product(read, [*written, *added]):
        if _is_one_target(source, output, app) and not _has_new_ids(source, subject):
            told |= {source.name, output.name}
            first = (
                f"the body reads it under the lock of {guard}"
                if _is_client(source, subject)
                else f"the host reads it before {guard} waits for the lock"
            )
            yield RULES["input-is-output"].broken(
                f"{_shown(output)} is the input {source.name!r} and the output {output.name!r}: {first}, and the host "
                "writes it after the lock is released. So two invocations change the same old value, and one change "
                "is lost. Read and write it in the body, with a client of its SDK"
            )
    for source in read:
        if source.name not in told and not _is_client(source, subject):
            yield RULES["input-before-lock"].broken(
                f"the host reads {_shown(source)}, the input {source.name!r}, before {guard} waits for the lock: the "
                "body may see an old value. If it may change meanwhile, read it in the body, with a client of its SDK"
            )
    for output in written:
        if output.name not in told:
            yield RULES["output-after-lock"].broken(
                f"the host writes {_shown(output)}, the output {output.name!r}, after the lock of {guard} is "
                "released: the value of an earlier invocation may replace that of a later one. If the order counts, "
                "write it in the body, with a client of its SDK"
            )


def _sent_again(subject: Subject) -> Iterator[Finding]:
    """Yield the outputs that each repeat under ``@once`` sends again. Who replaces a value has another finding."""
    once = next((each for each in subject.guards if each.decorator == "@once"), None)
    sent = [each for each in subject.bindings if each.is_output and _kind(each) != "http" and not _overwrites(each)]
    if once is not None and sent and getattr(once, "outputs", "") == "always":
        yield RULES["repeat-sends-again"].broken(
            f"a repeat of a key sends {', '.join(f'the output {each.name!r}' for each in sent)} again. Where that "
            "harms, give @once outputs='first'"
        )


def _kind(binding: Binding) -> str:
    return binding.type.casefold()


def _overwrites(binding: Binding) -> bool:
    texts = _texts(binding)
    if _kind(binding) == "redis":
        return _REDIS_SETS.fullmatch(texts.get("command", "").partition(" ")[0]) is not None
    return _kind(binding) in _UPSERTING and not _NEW.search(texts.get("path", ""))


def _is_client(binding: Binding, subject: Subject) -> bool:
    """Tell whether the parameter gets a client of an SDK, with which the body itself reads."""
    annotation = annotations_of(inspect.unwrap(subject.call)).get(binding.name)
    return str(getattr(annotation, "__name__", annotation)).strip("'\"").endswith(_CLIENTS)


def _texts(binding: Binding) -> dict[str, str]:
    """Return the settings that are texts, by their names in lower case: the host ignores case there."""
    return {key.casefold(): value.strip() for key, value in binding.settings.items() if isinstance(value, str)}


def _shown(binding: Binding) -> str:
    texts = _texts(binding)
    names = [next((texts[name] for name in part if texts.get(name)), "") for part in _PARTS.get(_kind(binding), ())]
    name = "/".join(filter(None, names)) or texts.get("commandtext", "")
    return f"{binding.type} {quoted(name)}" if name else f"a value of {binding.type}"


def _is_one_target(source: Binding, output: Binding, app: AppSettings) -> bool:
    """Tell whether two bindings name one blob, document container, entity, table or key, however it is spelt.

    The id of a document, which an output leaves to its data, keeps no targets apart. An output of a table replaces no
    entity, so it has one target with an input only if it names all keys of the input.
    """
    kind, texts = _kind(source), (_texts(source), _texts(output))
    if kind != _kind(output) or _account(kind, texts[0], app) != _account(kind, texts[1], app):
        return False
    if kind in ("sql", "mysql"):
        names = [_resolved(each.get("commandtext", ""), app) for each in texts]
        return _queries(names[0], names[1])
    if kind == "redis":
        return _one_key(*(_resolved(each.get("command", ""), app).split() for each in texts))
    for part in _PARTS[kind]:
        mine, others = (next((each[name] for name in part if each.get(name)), "") for each in texts)
        is_named = bool(others) or kind == "table"
        if mine and is_named and _resolved(mine, app, kind) != _resolved(others, app, kind):
            return False
    return True


def _one_key(read: list[str], written: list[str]) -> bool:
    """Tell whether two commands of Redis have one key, and of two hashes one field."""
    fields = read[2:3], written[2:3]
    is_one_field = not all(fields) or read[0][0].casefold() != "h" or fields[0] == fields[1]
    return read[1:2] == written[1:2] != [] and is_one_field


def _has_new_ids(source: Binding, subject: Subject) -> bool:
    """Tell whether an input is a document of one id, and the body writes other ids only, of no value of the input."""
    read = _texts(source).get("id", "")
    written = None if subject.code is None else definition(subject.code)
    if _kind(source) != "cosmosdb" or not read or "{" in read or written is None:
        return False
    names = {source.name}
    for each in [*ast.walk(written), *ast.walk(written)]:  # a name may come from a name that is given below
        match each:
            case (
                ast.Assign(targets=[target], value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
            ):
                if names & _names(value):
                    names |= _names(target)
    found = [each for each in ast.walk(written) if isinstance(each, ast.Dict)]
    ids = [value for each in found for key, value in zip(each.keys, each.values, strict=True) if _is_text(key, "id")]
    return bool(ids) and not any(_is_text(each, read) or names & _names(each) for each in ids)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _is_text(node: ast.AST | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def _resolved(text: str, app: AppSettings, kind: str = "") -> str:
    """Return a text with its app settings in it, and with its ``{name}`` in one spelling."""
    text = _PERCENT.sub(lambda found: setting(app.values, found[1]) or normalised(found[0]), text)
    text = _BRACED.sub(lambda found: found[0].casefold().replace(" ", ""), text)
    if kind == "blob":
        return re.sub(r"\Ahttps?://[^/]+", "", text).lstrip("/")
    return text


def _queries(query: str, table: str) -> bool:
    """Tell whether a query reads a table; a name without its schema may be in any."""
    wanted = table.translate(_QUOTES).casefold().split(".")
    found = _FROM.findall(_COMMENT.sub(" ", query).translate(_QUOTES).casefold())
    return any(all(a == b for a, b in zip(each.split(".")[::-1], wanted[::-1], strict=False)) for each in found)


def _account(kind: str, texts: Mapping[str, str], app: AppSettings) -> tuple[str, ...]:
    """Return what is equal for two connections to one account or database."""
    name = texts.get("connection") or texts.get("connectionstringsetting") or texts.get("daprconnection") or ""
    if kind in _STORAGE:
        name = name or DEFAULT_CONNECTION
    try:
        group = configured(name, app.values)
        if kind in _STORAGE:
            return (group.account(_STORAGE[kind], app.values).endpoint.casefold().rstrip("/"),)
    except ConfigurationError:
        return (normalised(name).removeprefix("azurewebjobs"),)
    given = [part.partition("=")[::2] for part in group.value.split(";")] if group.value else [*group.keys.items()]
    folded = ((key.strip().casefold(), value.strip().casefold()) for key, value in given)
    where = sorted((_PLACES[key], _DEFAULT_PORT.sub("", value)) for key, value in folded if key in _PLACES)
    return tuple(f"{key}={value}" for key, value in where) or (normalised(group.name),)
