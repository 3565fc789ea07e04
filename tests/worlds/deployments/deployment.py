"""Deployments: what some hosts are deployed with, drawn by number.

First the truth is drawn: accounts, host ids, options, functions and their locks. Then each app is written down, in one
way or in two: as settings, host.json and declarations. It is declared once, with its environment in place.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from singleton import SingletonOptions, singleton
from singleton.base.errors import ConfigurationError
from tests.worlds.deployments.blob_names import expected_blob
from tests.worlds.deployments.environment import environment
from tests.worlds.deployments.places import Expected
from tests.worlds.deployments.scopes import SETTINGS, Scope, draw_scope
from tests.worlds.deployments.writings import (
    DEFAULT,
    Account,
    Papers,
    draw_account,
    draw_host_id,
    host_id_written,
    host_json,
    write_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.hosts.jobs import Job
    from singleton.base.kinds import Mode

DEPLOYMENTS: Final = 64
"""The number of deployments: worlds draw one of them."""
_WEBJOBS: Final = "azure-webjobs-hosts"
_WRITTEN: Final[dict[str, Literal["token", "owner"]]] = {"default": "token", "webjobs": "owner", "dequeueable": "token"}
Policy = Literal["wait", "skip", "raise"]


@dataclass(slots=True)
class Deed:
    """What one invocation's body does and returns; it notes how often it has begun."""

    job: Job
    gives: Any
    begun: int = field(default=0, init=False)


async def deed(msg: str, job: Deed) -> Any:
    """Do it."""
    job.begun += 1
    await job.job.run()
    return job.gives


def deed_sync(msg: str, job: Deed) -> Any:
    """Do it on a thread."""
    job.begun += 1
    job.job.run_sync()
    return job.gives


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A guarded function, as it is meant: also what callers may count on (``Guarded``)."""

    name: str
    layout: Literal["default", "webjobs", "dequeueable"]
    of_the_host: bool
    dotnet_name: str
    scope: Scope
    account: int
    container: str
    host_id: str
    on_contention: Policy
    timeout: float | None
    is_async: bool
    options: SingletonOptions
    retries: int | None
    soonest: float
    gives: tuple[Any, ...]

    mode: Mode = "function"

    @property
    def period(self) -> float:
        """Seconds of its leases."""
        return self.options.lock_period

    @property
    def poll(self) -> float:
        """Seconds between two looks at the lock, at most."""
        return self.options.lock_acquisition_polling_interval

    @property
    def wait(self) -> float | None:
        """Seconds for which its callers wait; None: without a limit."""
        if self.timeout is not None:
            return self.timeout
        return self.options.lock_acquisition_timeout if self.on_contention == "wait" else 0

    def lock(self, values: tuple[str, ...]) -> str:
        """Return the name of the lock for these values."""
        more = {"of_the_host": self.of_the_host, "dotnet_name": self.dotnet_name}
        return expected_blob(self.layout, self.host_id, self.name, values, **more)  # type: ignore[arg-type]

    def expected(self, edition: Edition, values: tuple[str, ...]) -> Expected:
        """Return what is expected of the lock for these values, on a host that runs this edition."""
        account = edition.app.accounts[self.account]
        return Expected(
            name=self.lock(values),
            endpoint=account.endpoint,
            way=edition.ways[self.account],
            container=self.container,
            period=self.period,
            renewal=self.options.renewal_interval or self.period / 2,
            soonest=self.soonest,
            latest=self.poll,
            in_line=self.retries is None,
            written=_WRITTEN[self.layout] if self.options.fencing_tokens else "nothing",
        )


@dataclass(slots=True)
class App:
    """An app, as it is meant."""

    number: int
    accounts: list[Account]
    host_id: str
    functions: list[Function] = field(default_factory=list)


@dataclass(slots=True)
class Edition:
    """An app as it is written down and declared. ``refused``: what is said of a declaration that is allowed."""

    app: App
    settings: dict[str, str]
    ways: list[str] = field(default_factory=list)
    guarded: dict[str, Callable[..., Any]] = field(default_factory=dict)
    refused: str = ""


@cache
def deployment(number: int) -> tuple[Edition, ...]:
    """Return one to three editions: of one app, or of two that share no lock; the same each time."""
    rng = random.Random(f"deployment/{number}")
    editions = []
    for app_number in range(rng.choice((1, 1, 2))):
        try:
            app, papers, options = _meant(rng, app_number)
        except ConfigurationError as error:
            return (Edition(App(0, [], ""), {}, refused=f"options that are allowed: {error}"),)
        editions.append(_written(rng, app, papers, options))
        if rng.random() < 0.5:  # the same app once more, written in another way
            editions.append(_written(rng, app, host_id_written(rng, app.host_id), options))
    return tuple(editions[:3])


# --- what is meant ----------------------------------------------------------------------------------------------------


def _meant(rng: random.Random, number: int) -> tuple[App, Papers, dict[str, object]]:
    host_id, papers = draw_host_id(rng, number)
    accounts = [draw_account(rng, f"shop{number}{letter}") for letter in "ab"]
    if accounts[0] == accounts[1]:
        accounts.pop()
    app = App(number, accounts, host_id)
    options = _options(rng, number)
    for index in range(rng.randint(2, 4)):
        app.functions.append(_function(rng, app, index, options))
    section = {key: value for key, value in options.items() if key.startswith("Dequeueable")}
    for key in section:
        del options[key]
    if any(function.layout == "dequeueable" for function in app.functions):
        options |= section
    return app, papers, options


def _options(rng: random.Random, number: int) -> dict[str, object]:
    """Draw options by their names in host.json, and Dequeueable's by theirs."""
    period = float(rng.choice((15, 16, 20, 30, 60)))
    poll = rng.choice((0.5, 1.0, 2.5, 5.0, 8.0))
    drawn: dict[str, object] = {
        "lockPeriod": period,
        "lockAcquisitionPollingInterval": poll,
        "lockAcquisitionMinPollingInterval": rng.choice((0.05, 0.1, 0.25, 0.5)),
        "lockAcquisitionTimeout": rng.choice((None, 20.0, 45.0)),
        "handoffWindow": rng.choice((0.0, 5.0, 12.5)),
        "fencingTokens": rng.random() < 0.5,
        "renewalInterval": rng.choice((3.0, 5.0, 12.0)),
        "container": rng.choice(("locks-of-shops", "my-locks")) + f"-{number}",
        "localRunWarning": False,
    }
    kept = {name: value for name, value in drawn.items() if rng.random() < 0.6}
    kept["Dequeueable__Singleton__LeaseDurationInSeconds"] = rng.choice((15, 40))
    kept["Dequeueable__Singleton__MinimumPollingIntervalInSeconds"] = rng.choice((1, 3))
    kept["Dequeueable__Singleton__MaximumPollingIntervalInSeconds"] = rng.choice((4, 8))
    kept["Dequeueable__Singleton__MaxRetries"] = rng.choice((0, 2, 3))
    kept["Dequeueable__Singleton__ContainerName"] = "of-dequeueable"
    return kept


_ARGUMENTS: Final = {
    "lockPeriod": "lock_period",
    "lockAcquisitionPollingInterval": "lock_acquisition_polling_interval",
    "lockAcquisitionMinPollingInterval": "lock_acquisition_min_polling_interval",
    "lockAcquisitionTimeout": "lock_acquisition_timeout",
    "handoffWindow": "handoff_window",
    "fencingTokens": "fencing_tokens",
    "renewalInterval": "renewal_interval",
}


def _function(rng: random.Random, app: App, index: int, given: dict[str, object]) -> Function:
    layouts: tuple[Literal["default", "webjobs", "dequeueable"], ...] = ("default", "default", "webjobs", "dequeueable")
    # A Dequeueable lock is only a value: one of two apps has them, so that no two locks share a name.
    layout = rng.choice(layouts[: 3 if app.number else 4])
    of_the_host = layout != "dequeueable" and rng.random() < 0.3
    shared = of_the_host or layout == "dequeueable"  # Dequeueable's locks are shared as well: they lie in one account
    values: dict[str, Any] = {_ARGUMENTS[key]: value for key, value in given.items() if key in _ARGUMENTS}
    container = str(given.get("container", "webjobshost"))
    retries = None
    if layout == "webjobs":
        container = _WEBJOBS
    if layout == "dequeueable":
        section = {key.rpartition("_")[2]: value for key, value in given.items() if key.startswith("Dequeueable")}
        container, retries = str(section["ContainerName"]), section["MaxRetries"]
        values |= {
            "lock_period": section["LeaseDurationInSeconds"],
            "lock_acquisition_timeout": None,
            "lock_acquisition_polling_interval": section["MaximumPollingIntervalInSeconds"],
            "lock_acquisition_min_polling_interval": 0.1,
        }
    options = SingletonOptions(**values)
    timeout = rng.choice((None, None, 6.0, 30.0))
    name = f"{rng.choice(('Ship', 'bill-of', 'tidy_up'))}{app.number}{index}"
    shortest: Any = given["Dequeueable__Singleton__MinimumPollingIntervalInSeconds"]
    return Function(
        name=name,
        layout=layout,
        of_the_host=of_the_host,
        dotnet_name=f"Contoso.Shop{app.number}+Jobs.{name.replace('-', '_')}"
        if layout == "webjobs" and not of_the_host and rng.random() < 0.5
        else "",
        scope=draw_scope(rng, layout, f"s{app.number}", needed=of_the_host),
        account=0 if shared else rng.randrange(len(app.accounts)),
        container=container,
        host_id=app.host_id,
        on_contention=rng.choice(("wait", "wait", "wait", "skip", "raise")),
        timeout=timeout,
        is_async=rng.random() < 0.7,
        options=options,
        retries=retries,  # type: ignore[arg-type]
        soonest=float(shortest) if retries is not None else options.lock_acquisition_min_polling_interval,
        gives=(None, 0, "", "sent", {"a": [1]}, [1, 2], b"x", False),
    )


# --- how it is written ------------------------------------------------------------------------------------------------


def _written(rng: random.Random, app: App, papers: Papers, options: dict[str, object]) -> Edition:
    papers = Papers({**papers.settings}, {**papers.section})
    ours = {key: value for key, value in options.items() if not key.startswith("Dequeueable")}
    write_options(rng, ours, papers)
    for key, value in options.items():
        if key.startswith("Dequeueable"):
            papers.settings[rng.choice((key, key.replace("__", ":"), key.upper()))] = f" {value}"
    settings = {**SETTINGS, "AzureFunctionsJobHost__functionTimeout": "-1", **papers.settings}
    edition = Edition(app, settings)
    arguments = []
    for number, account in enumerate(app.accounts):
        name = DEFAULT if number == 0 and rng.random() < 0.4 else f"Shop{number}"
        written = account.written(rng, name)
        settings.update(written.settings)
        arguments.append(written.argument)
        edition.ways.append(written.way)
    if DEFAULT not in arguments:
        settings[DEFAULT] = "AccountName=decoydefault;AccountKey=ZGVjb3k="
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "host.json").write_text(host_json(rng, papers.section), encoding="utf-8")
        with environment({**settings, "AzureWebJobsScriptRoot": folder}):
            for function in app.functions:
                _declare(rng, edition, function, arguments[function.account], folder)
    return edition


def _declare(rng: random.Random, edition: Edition, function: Function, connection: str, folder: str) -> None:
    arguments: dict[str, Any] = {"layout": function.layout, "on_contention": function.on_contention}
    if function.scope.path is not None:
        arguments["scope"] = function.scope.path
    if function.scope.template:
        arguments["scope_id"] = function.scope.template
    if function.of_the_host:
        arguments["level"] = "host"
    if function.dotnet_name:
        arguments["dotnet_name"] = function.dotnet_name
    if function.timeout is not None:
        seconds = function.timeout
        arguments["timeout"] = timedelta(seconds=seconds) if rng.random() < 0.3 else seconds
    if connection != DEFAULT or rng.random() < 0.5:
        arguments["connection"] = connection
    try:
        edition.guarded[function.name] = singleton(**arguments)(deed if function.is_async else deed_sync)
    except ConfigurationError as error:
        edition.refused = f"{function.name}, whose declaration is allowed: {error}".replace(f"{folder}/", "")
