"""What an app declares is read apart from the product, and a right product makes the same of it."""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import singleton as product
from simulator.expected.blob import expected_blob
from simulator.expected.declaration import ARGUMENTS, OPTIONS, Declaration, options_in_force
from simulator.expected.key import Declared, Delivered, expected_key
from simulator.host.declared import declarations_copied, declared_around, declared_on
from simulator.witness.witness import RULES
from singleton import OldLock, SingletonOptions
from singleton import singleton as original
from singleton.decorator import DEFAULTS, guards_of
from singleton.functions.message_deferral import JITTER
from singleton.functions.triggers import ONCE_MARK
from singleton.layouts.blob_name import hashed_scope, lock_name, semaphore_name
from singleton.layouts.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from singleton.functions.guard import Guard

HOST_JSON = {
    "version": "2.0",
    "singleton": {
        "lockPeriod": "00:00:20",
        "LISTENERLOCKPERIOD": "00:00:30",
        "lockAcquisitionTimeout": "00:02:00",
        "deferDelay": "00:00:04.5",
        "cancelOnLoss": False,
        "container": "locks-of-mine",
        "hostId": "mine",
    },
}
WRITTEN: tuple[dict[str, Any], ...] = (
    {},
    {"scope": "Id"},
    {"scope_id": "tenant-%REGION%", "level": "host"},
    {"limit": 3, "scope": "Id", "timeout": 4},
    {"on_contention": "skip", "timeout": timedelta(seconds=2.5)},
    {"on_contention": "raise"},
    {"on_contention": "conflict", "timeout": 3, "max_waiting": 0},
    {"on_contention": lambda _: "skip"},
    {"max_waiting": 2, "when_full": "raise"},
    {"at_least": timedelta(minutes=1), "max_hold": 90},
    {"mode": "listener", "on_contention": "raise"},
    {"mode": "listener", "on_contention": "raise", "failover": 4, "listener_lock_period": 15},
    {"mode": "listener", "on_contention": "raise", "listener_lock_recovery_polling_interval": math.inf},
    {"name": "older", "scope": "Id", "scope_hash": True},
    {"lock_period": 60, "renewal_interval": 7, "lock_acquisition_polling_interval": 1.5},
    {"failover": 3, "cancel_on_loss": True, "defer_delay": 30},
    {"failover": 0},
    {"layout": "webjobs", "scope": "Id"},
    {"layout": "webjobs", "dotnet_name": "Contoso.Shop.Orders.Ship"},
    {"layout": "dequeueable"},
    {"layout": "dequeueable", "scope_id": "x"},
    {"connection": "Other"},
    {"scope": "Id", "also": OldLock(name="send")},
)


def told_by(guard: Guard) -> dict[str, Any]:
    """Return what a right guard says of itself, under the names of the journal."""
    return {
        "scope": guard.scope,
        "scope_id": guard.scope_id,
        "level": guard.level,
        "mode": guard.mode,
        "on_contention": guard.on_contention if isinstance(guard.on_contention, str) else "custom",
        "timeout": guard.wait if guard.max_waiting is None else guard.waits,
        "lease": guard.period,
        "renewal": guard.options.renewal_interval,
        "failover": guard.options.failover,
        "cancels": guard.options.cancel_on_loss,
        "poll": guard.poll,
        "window": guard.options.handoff_window,
        "tokens": guard.options.fencing_tokens and guard.layout.stamp() == "token" and guard.limit is None,
        "at_once": guard.limit or 1,
        "several": guard.limit is not None,
        "at_least": guard.at_least,
        "max_hold": guard.max_hold,
        "max_waiting": guard.max_waiting,
        "when_full": guard.when_full,
        "merges": type(guard.layout) is not Layout,
        "away": guard.options.defer_delay * (1 + JITTER),
        "also": guard.also is not None,
    }


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "host.json").write_text("// ours\n" + json.dumps(HOST_JSON), "utf-8")
    monkeypatch.setenv("AzureWebJobsScriptRoot", str(tmp_path))
    monkeypatch.setenv("REGION", "north")
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockAcquisitionPollingInterval", "00:00:02")
    monkeypatch.setenv("Dequeueable__Singleton__LeaseDurationInSeconds", "45")
    monkeypatch.setenv("Dequeueable__Singleton__Scope", "Tenant")
    return tmp_path


@pytest.mark.parametrize("given", WRITTEN, ids=lambda given: " ".join(given) or "bare")
def test_a_right_guard_is_as_it_was_declared(app: Path, given: dict[str, Any]) -> None:
    with declarations_copied(app, os.environ):
        from singleton import singleton as guard

        def ship(msg: bytes) -> None: ...

        guarded = guard(**given)(ship) if given else guard(ship)
    (declared,), (made,) = declared_on(guarded), guards_of(guarded)
    assert declared.facts() == told_by(made)
    assert dict(declared.given) | given == dict(declared.given)
    assert declared.options["container"] == made.options.container
    assert declared.options["host_id"] == "mine"


def test_the_table_of_arguments_has_every_one_of_the_product_with_its_default() -> None:
    options = {name: value for name, value in DEFAULTS.items() if name not in ARGUMENTS}
    assert {**DEFAULTS, **options} == {**ARGUMENTS, **options}
    of_the_app = {name: getattr(SingletonOptions(), name) for name in OPTIONS}
    assert of_the_app == dict(OPTIONS)
    assert options.keys() <= OPTIONS.keys()


def import_alias(wrap: Callable[[Any], Any]) -> Any:
    from singleton import singleton as other_name

    return other_name(scope="Id")(wrap)


def from_package(wrap: Callable[[Any], Any]) -> Any:
    return product.singleton(scope="Id")(wrap)


def from_module(wrap: Callable[[Any], Any]) -> Any:
    import singleton.decorator as module

    return module.singleton(scope="Id")(wrap)


def by_partial(wrap: Callable[[Any], Any]) -> Any:
    return functools.partial(product.singleton, scope="Id")()(wrap)


def by_partial_of_the_function(wrap: Callable[[Any], Any]) -> Any:
    return functools.partial(product.singleton, scope="Id")(wrap)


def below_a_decorator(wrap: Callable[[Any], Any]) -> Any:
    guarded = product.singleton(scope="Id")(wrap)

    @functools.wraps(guarded)
    def outer(msg: bytes) -> Any:
        return guarded(msg)

    return outer


@pytest.mark.parametrize(
    "form",
    [import_alias, from_package, from_module, by_partial, by_partial_of_the_function, below_a_decorator],
    ids=lambda form: form.__name__,
)
def test_arguments_are_copied_however_the_decorator_is_imported(app: Path, form: Callable[..., Any]) -> None:
    def ship(msg: bytes) -> None: ...

    with declarations_copied(app, os.environ):
        guarded = form(ship)
    assert [dict(each.given) for each in declared_on(guarded)] == [{"scope": "Id"}]
    assert inspect.unwrap(guarded) is ship
    found = declared_around(ship, "function")
    assert found is not None
    assert dict(found.given) == {"scope": "Id"}
    assert declared_around(ship, "listener") is None


def test_two_declarations_of_one_function_are_both_known_the_listeners_first(app: Path) -> None:
    with declarations_copied(app, os.environ):
        one = product.singleton(scope_id="x")
        two = product.singleton(mode="listener", on_contention="raise")
        guarded = [one(two(lambda _: None)), two(one(lambda _: None))]
    for each in guarded:
        assert [declared["mode"] for declared in declared_on(each)] == ["listener", "function"]


@pytest.mark.parametrize(
    "given", [{}, {"on_contention": "conflict"}, {"on_contention": "raise", "timeout": 2}, {"timeout": 1, "keep": 60}]
)
def test_once_is_judged_by_its_own_arguments_as_written(app: Path, given: dict[str, Any]) -> None:
    def charge(msg: bytes) -> None: ...

    with declarations_copied(app, os.environ):
        guarded = product.once(key="Id", **given)(charge)
    guard = vars(guarded)[ONCE_MARK]()
    found = declared_around(charge, "function", "once")
    assert found is not None
    told = told_by(guard)
    assert found.facts() == told | {"merges": False}  # the names of operations keep all keys apart
    assert found.keep == guard.keep
    assert declared_on(guarded) == ()


@pytest.mark.parametrize("given", [{}, {"attempts": 3}, {"attempts": 1, "on_poison": "stop"}])
def test_how_often_an_inbox_tries_a_message_is_read_from_what_the_app_wrote(app: Path, given: dict[str, Any]) -> None:
    def ship(message: product.InboxMessage) -> None: ...

    inbox = product.Inbox("orders")
    with declarations_copied(app, os.environ):
        both = product.ordered(inbox, **given)(ship), product.ordered(inbox=inbox, **given)(ship)
    rules = {"attempts": given.get("attempts", 5), "stops": "on_poison" in given}
    assert [getattr(each, RULES) for each in both] == [rules] * 2


def test_a_function_with_singleton_below_once_has_both_declarations(app: Path) -> None:
    def charge(msg: bytes) -> None: ...

    with declarations_copied(app, os.environ):
        guarded = product.once(key="Id", timeout=3)(product.singleton(scope="Id", on_contention="raise")(charge))
    assert [each.policy for each in declared_on(guarded)] == ["raise"]
    both = [declared_around(charge, "function", name) for name in ("singleton", "once")]
    assert [each and each.waits for each in both] == [0, 3]


def test_a_block_of_once_declares_nothing(app: Path) -> None:
    client = product.LockClient("UseDevelopmentStorage=true")
    with declarations_copied(app, os.environ):
        once = product.once
    block = once(client, "7", name="charge", timeout=3)
    assert declared_on(block) == ()  # type: ignore[arg-type]
    assert type(block) is type(product.once(client, key="7"))


def test_the_decorator_looks_as_without_a_copy_and_is_put_back(app: Path) -> None:
    signature, source = inspect.signature(original), inspect.getsource(original)
    with declarations_copied(app, os.environ):
        copying: Any = product.singleton
        assert copying is not original
        assert inspect.signature(copying) == signature
        assert inspect.getsource(copying) == source
        assert (copying.__name__, copying.__doc__, copying.__module__) == (
            original.__name__,
            original.__doc__,
            original.__module__,
        )
        with pytest.raises(TypeError, match="scop"):
            copying(scop="Id")
    assert product.singleton is original


def test_an_app_setting_stands_over_host_json_and_a_span_may_be_endless() -> None:
    section = {"lockAcquisitionTimeout": "10675199.02:48:05.4775807", "failover": "00:00:03", "lockPeriod": "00:00:20"}
    settings = {
        "azurefunctionsjobhost:singleton:lockPeriod": "00:01",
        "AZURE_FUNCTIONS_ENVIRONMENT": "Development",
        "AzureFunctionsJobHost__singleton__cancelOnLoss": "False",
    }
    found = options_in_force(section, settings)
    assert (found["lock_period"], found["lock_acquisition_timeout"], found["failover"]) == (60, None, 3)
    assert (found["listener_lock_period"], found["cancel_on_loss"]) == (15, False)
    assert options_in_force({"deferDelay": "1.00:00:00"}, {})["defer_delay"] == 86_400
    assert options_in_force({"deferDelay": "24:00:00"}, {})["defer_delay"] == 24 * 86_400


def test_a_declaration_without_arguments_has_the_defaults_of_the_documentation() -> None:
    facts = Declaration.of({}, options_in_force({}, {}), {}).facts()
    assert (facts["lease"], facts["poll"], facts["timeout"], facts["at_once"]) == (15, 5, None, 1)


@pytest.mark.parametrize("value", ["42", "a/b.c~d", "é%", "\ud83d", "x" * 300, "é" * 200, "%" * 83])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("level", ["function", "host"])
@pytest.mark.parametrize("hashed", [False, True])
def test_the_expected_blob_is_that_of_a_right_product(value: str, level: Any, *, several: bool, hashed: bool) -> None:
    host = "my.host" * 20
    declared = Declared(function="ship it", host_id=host, scope="Id", level=level, several=several)
    body = json.dumps({"Id": value})
    key = expected_key(declared, Delivered(trigger="queueTrigger", body=body), {})
    name = lock_name(host, "ship it", [hashed_scope(value) if hashed else value], level)
    assert isinstance(key, str)
    assert expected_blob(key, hashed=hashed) == (semaphore_name(name) if several else name)


def test_the_expected_blob_of_a_listener_and_of_other_layouts() -> None:
    assert expected_blob('["default", "app", "listener", "ship"]') == "locks/app/ship~listener"
    assert expected_blob('["default", "app", "listener", "ship", "x"]') == "locks/app/ship.x~listener"
    assert expected_blob('["default", "app", "function", "ship"]') == "locks/app/ship"
    assert expected_blob('["webjobs", "app", "function", "ship"]') is None
    assert expected_blob('["dequeueable", "42"]') is None
