"""One run from beginning to end: storage, hosts, work, kills, the wait for outstanding work, and the verdict.

Some options are refused before anything starts. Whatever happens, nothing stays behind: no process, no port, no folder
(unless the journals are to be kept).
"""

from __future__ import annotations

import contextlib
import importlib.util
import secrets
import shutil
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simulator.azurite.install import AzuriteError
from simulator.azurite.server import Azurite
from simulator.checks.findings import fleet_of
from simulator.checks.verdict import Verdict, judge
from simulator.history.journal import clock, read_journals
from simulator.host.app.app_model import NO_TICKS
from simulator.nemesis.nemesis import Nemesis
from simulator.nemesis.wires import WireError, Wires, services_of
from simulator.real.fleet import GRACE, TEMPORARY, Fleet, FleetTrouble
from simulator.real.fleet_field import RealField, Wiring
from simulator.real.settle import Interrupt, Signals, failing_over, hopeless, multiplying, outstanding
from simulator.real.storage import GivenStorage, Storage, StorageMeasure, StorageTrouble, checked_storage
from simulator.real.supply import Supply
from simulator.report.words import Phase, Progress, Reporter
from simulator.work.apps import App, check_app, describe, described, end_describing, together
from simulator.work.deployments import deployments_of, shares_by_itself
from simulator.work.feed import Feeder
from simulator.work.own import check_messages, read_own
from simulator.work.scenario import ScenarioError
from singleton.settings.connection import parse_connection_string

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

    from simulator.history.journal import Record
    from simulator.work.scenario import Scenario


def refuse(scenario: Scenario) -> None:
    """Check the files and the storage of a run, as far as possible before a process is started.

    Raises:
        ScenarioError: a file or the storage can't be used.
    """
    for folder in scenario.folders:
        check_app(folder)
    deployments_of(scenario)
    if scenario.messages is not None:
        check_messages(scenario.messages)
    if scenario.storage:
        storage = checked_storage(scenario.storage, cloud=scenario.cloud)
        if scenario.struck:
            try:
                services_of(storage)
            except WireError as error:
                raise ScenarioError(f"--storage: {error}") from error


STEP: Final = 0.05
KILLING_STEP: Final = 0.005
AIMING_STEP: Final = 0.02
PICKY: Final = 5.0  # seconds for which a victim must hold a lock with waiters on other hosts
AFTERMATH: Final = 5.0  # seconds of work after a kill, so that the victim's locks are asked for
TURNS: Final = 20.0  # seconds of work after the last fault, so that every host gets a turn; less in a short run
KILL_PATIENCE: Final = 30.0
CHECK: Final = 1.0
HURRIED_GRACE: Final = 3.0
HEALED_WITHIN: Final = 90.0


class RunTrouble(Exception):
    """The run can't go on for a reason outside the app and the options; the message says what to do."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of a run: the verdict, if there is one, the journals' folder, if it was kept, and the records."""

    verdict: Verdict | None
    journals: Path | None
    records: tuple[Record, ...] = field(repr=False, default=())


def run(scenario: Scenario, reporter: Reporter, signals: Signals, account: GivenStorage | None = None) -> RunOutcome:
    """Run a scenario. ``account``: where its locks are, if the scenario names no storage; none: on an Azurite.

    Raises:
        ScenarioError: an option, the app or its messages can't be used.
        RunTrouble: storage or processes don't work.
    """
    refuse(scenario)
    if importlib.util.find_spec("psutil") is None:
        raise RunTrouble("fake hosts need the package psutil (the extra [hosts]): pip install psutil")
    folder = Path(tempfile.mkdtemp(prefix="singleton-sim-"))
    keep = scenario.keep
    course = _Course(scenario, folder, reporter, signals, account)
    try:
        verdict = course.run()
        return RunOutcome(verdict, folder if keep else None, course.records)
    except (AzuriteError, StorageTrouble, FleetTrouble) as error:
        raise RunTrouble(f"{error}; the journals are in {folder}" if keep else str(error)) from error
    except Exception as error:
        if type(error).__module__.startswith("simulator."):
            raise
        keep = True
        (folder / "error.log").write_text(traceback.format_exc(), "utf-8")
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise RunTrouble(f"unexpected {what}; the traceback is in {folder / 'error.log'}") from error
    finally:
        try:
            signals.close()
        finally:
            course.close()
            for config in folder.glob("*.config.json"):
                config.unlink()
            (folder / NO_TICKS).unlink(missing_ok=True)
            shutil.rmtree(folder / TEMPORARY if keep else folder, ignore_errors=True)


class _Course:
    """The steps of one run, in order, and how to undo each."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        reporter: Reporter,
        signals: Signals,
        account: GivenStorage | None,
    ) -> None:
        self._scenario = scenario
        self._account = account
        self._folder = folder
        self._reporter = reporter
        self._signals = signals
        self._undo = contextlib.ExitStack()
        self._azurite: Azurite | None = None
        self._app: App
        self._storage: Storage
        self._supply: Supply
        self._fleet: Fleet
        self._nemesis: Nemesis | None = None
        self._started = 0.0
        self._checked = 0.0
        self._decided = False
        self.records: tuple[Record, ...] = ()

    def run(self) -> Verdict | None:
        """Go through the run. If it is interrupted, or decided early, what has happened so far is judged."""
        try:
            self._prepare()
            self._assemble()
            self._work()
            self._settle()
        except Interrupt:
            return self._end(interrupted=True) if self._started else None
        except StorageTrouble:
            if self._azurite is not None:
                self._azurite.check()  # if the host has ended, its last lines say more
            raise
        self._signals.close()
        return self._end(interrupted=self._decided)

    def close(self) -> None:
        """Undo what was done, the last step first."""
        self._undo.close()

    def _prepare(self) -> None:
        """Get the storage and the app's description, both at once."""
        scenario = self._scenario
        connection = checked_storage(scenario.storage, cloud=scenario.cloud) if scenario.storage else ""
        with self._signals.held():
            describing = {folder: describe(folder) for folder in scenario.folders}
            for each in describing.values():
                self._undo.callback(end_describing, each)
        if not (connection or self._account):
            connection = self._start_azurite(describing)
        self._reporter.step(f"Reading the app in {' and '.join(map(str, scenario.folders))}")
        self._app = together({folder: described(process, folder) for folder, process in describing.items()})
        self._own = read_own(scenario.messages, self._app) if scenario.messages else None
        self._connection = connection
        self._storage = Storage(connection, self._app)
        self._undo.callback(self._storage.close)
        self._storage.prepare()

    def _start_azurite(self, describing: Mapping[Path, subprocess.Popen[str]]) -> str:
        """Start an own storage, unless a folder turns out to be no app meanwhile."""

        def step(text: str) -> None:
            self._reporter.step(text)
            for folder, process in describing.items():
                if process.poll():
                    described(process, folder)

        self._azurite = Azurite(step)
        self._undo.callback(self._azurite.stop)
        self._azurite.start()
        return self._azurite.connection_string

    def _assemble(self) -> None:
        """Start the hosts and wait until all are ready."""
        scenario = self._scenario
        sites = deployments_of(scenario)
        fresh = self._azurite is not None or self._account is not None  # the storage has nothing of earlier runs
        own = "" if self._azurite else f"simulated-{secrets.token_hex(4)}"
        lock_host_id = own + "-" * bool(own) if sites else own or "fleet"
        supply = self._supply = Supply(self._app, self._storage, scenario)
        self._undo.callback(supply.stop)
        supply.start()
        wiring = None
        if scenario.struck:
            wires = Wires()
            self._undo.callback(wires.stop)
            wires.start()
            wiring = Wiring(wires, self._connection)
        fleet = self._fleet = Fleet(
            scenario,
            self._folder,
            storage=self._connection,
            account=self._account.settings if self._account else None,
            lock_host_id=lock_host_id,
            sites=sites,
            way=None if wiring is None else wiring.open,
            bus=supply.url,
        )
        supply.serve(fleet)
        self._undo.callback(fleet.journal.close)
        self._undo.callback(fleet.end_at_once)
        if not fresh:
            self._undo.callback(self._storage.clean, f"locks/{lock_host_id}" + "/" * (not sites))
        endpoint = self._account.endpoint if self._account else parse_connection_string(self._connection, "").endpoint
        self._measure = StorageMeasure(endpoint, self._folder)
        self._undo.callback(self._measure.stop)
        self._measure.start()
        fleet.journal.write(
            "run_started",
            hosts=scenario.hosts,
            kill=scenario.kill,
            pause=scenario.pause,
            seed=scenario.seed,
            duration=scenario.duration,
            singleton=scenario.singleton,
            same_app=scenario.same_app or bool(sites),
            app=str(scenario.app),
            sites=[
                {
                    **asdict(site),
                    "folder": str(site.folder),
                    "hosts": [host.name for host in fleet.hosts[at :: len(sites)]],
                }
                for at, site in enumerate(sites)
            ],
            shared_id=not (sites or scenario.same_app or shares_by_itself(scenario.app)),
            queues=self._app.queues,
            container=self._app.container,
            aimed=not scenario.struck,
            faults=scenario.kinds(),
            fault_every=scenario.fault_every,
            fresh=fresh,
        )
        if wiring is not None:
            plan = scenario.nemesis()
            fleet.journal.write("fault_plan", faults=[fault.to_dict() for fault in plan])
            field = RealField(fleet, wiring, self._storage)
            self._nemesis = Nemesis(plan, field, seed=scenario.seed, every=scenario.fault_every)
        self._reporter.step(f"Starting {fleet_of(scenario.hosts, same_app=scenario.same_app, apps=len(sites))}")
        fleet.start(lambda: self._show("starting"), self._signals.held)
        self._started = clock()

    def _work(self) -> None:
        fleet, duration = self._fleet, self._scenario.duration
        feeder = Feeder(
            self._app, seed=self._scenario.seed, duration=duration, own=self._own, large=self._scenario.struck
        )
        strikes = _strikes(self._scenario)
        if self._nemesis is not None:
            self._nemesis.start()
        while True:
            now = clock() - self._started
            fleet.look()
            if strikes or fleet.asleep:
                feeder.extend(now + STEP)  # without work no host can be caught inside
            hurt = self._nemesis is not None and self._be_struck(self._nemesis, now, feeder)
            self._supply.send_held()
            for message in feeder.due(now, fleet.board.under_way()):
                self._supply.send(message)
            due = bool(strikes) and now >= strikes[0][0]
            if due and self._strike(strikes[0][1], wanted=now < strikes[0][0] + PICKY):
                strikes.pop(0)
                feeder.extend(now + AFTERMATH)
            elif due and now > max(duration, strikes[0][0]) + KILL_PATIENCE:
                return  # no host can be caught inside: the verdict will say so
            disturbed = strikes or fleet.asleep or hurt
            if self._decided or (now >= duration and feeder.finished(now) and not disturbed):
                return
            self._watch()
            self._show("working")
            aiming = self._nemesis is not None and self._nemesis.aiming
            time.sleep(KILLING_STEP if due else AIMING_STEP if aiming else STEP)

    def _be_struck(self, nemesis: Nemesis, now: float, feeder: Feeder) -> bool:
        """Let the nemesis do what is due, and heal when the time is over; tell whether it is at work."""
        duration = self._scenario.duration
        if nemesis.healed is not None:
            return False
        with self._signals.held():
            if now < duration:
                nemesis.step()
            elif nemesis.heal():
                feeder.extend(now + max(AFTERMATH, min(TURNS, duration / 3)))
            else:
                feeder.extend(now + STEP)
        if now > duration + HEALED_WITHIN:
            raise FleetTrouble(f"a host that was started again was not ready within {HEALED_WITHIN:.0f} s")
        return True

    def _strike(self, what: str, *, wanted: bool) -> bool:
        with self._signals.held():
            return self._fleet.strike_one(what, wanted=wanted)

    def _settle(self) -> None:
        """Wait until nothing is outstanding, or nothing more will happen."""
        since, asked, waits, left = clock(), 0.0, [""], -1
        while not self._decided:
            self._fleet.look()
            now_left = self._fleet.board.under_way().total()
            if now_left != left or clock() - asked > STEP * 10:  # what is told is told of one moment
                asked, left = clock(), now_left
                self._supply.send_held()
                history = self._fleet.board.history
                waits = outstanding(history, self._supply.queued(), self._supply.requests())
                if not waits or hopeless(history, asked, since=since, visibility=self._scenario.visibility):
                    return
                if not failing_over(history):  # a tick may be what takes the lock of a killed host
                    self._fleet.end_ticks()
            self._watch()
            self._show("settling", waits)
            time.sleep(STEP)

    def _watch(self) -> None:
        """Wake hosts that have stood still for long enough; check now and then that something still runs."""
        self._fleet.wake()
        if clock() - self._checked > CHECK:
            self._checked = clock()
            self._decided = multiplying(self._fleet.board.history)
            if self._azurite is not None:
                self._azurite.check()
        if not self._fleet.board.alive():
            words = self._fleet.hosts[-1].last_words()
            raise FleetTrouble(f"all hosts have ended; the last output of the last one: {words}")

    def _show(self, phase: Phase, waits: Sequence[str] = ()) -> None:
        now, duration = clock(), self._scenario.duration
        elapsed = now - self._started if self._started else 0.0
        told = tuple(filter(None, waits))
        progress = Progress(phase=phase, now=now, elapsed=elapsed, duration=duration, waits=told)
        self._reporter.show(self._fleet.board, progress)

    def _end(self, *, interrupted: bool) -> Verdict:
        fleet = self._fleet
        if self._nemesis is not None:
            self._nemesis.undo()

        def hurry() -> bool:
            self._show("stopping")
            return self._signals.hurry()

        fleet.stop(grace=HURRIED_GRACE if interrupted else GRACE, hurry=hurry)
        if not interrupted:
            self._supply.write_what_is_left()
        self._measure.stop()
        fleet.journal.write("run_ended", interrupted=interrupted)
        fleet.look()
        self._show("stopping")
        self.records = tuple(read_journals(self._folder))
        return judge(self.records)


def _strikes(scenario: Scenario) -> list[tuple[float, str]]:
    """Spread kills and pauses over the first part of the run, so that the rest of the run shows their effects."""
    first, span = 0.2 * scenario.duration, 0.4 * scenario.duration
    wanted = (("kill", scenario.kill), ("pause", scenario.pause))
    return sorted((first + span * number / max(many - 1, 1), what) for what, many in wanted for number in range(many))
