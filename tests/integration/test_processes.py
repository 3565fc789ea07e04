"""Real processes that end, are interrupted, or fork: what they held is free at once, and nothing is said about it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockClient
from tests.support.fault_world import OPTIONS, SLACK, script, started

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

STRICT = ("-X", "dev", "-W", "error")
PROMPTLY = 3.0


class Place:
    """A lock, and processes that use it."""

    def __init__(self, connection: str, container: str) -> None:
        self.connection = connection
        self.options = OPTIONS.replace(container=container)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, code: str) -> subprocess.Popen[str]:
        arguments: dict[str, Any] = {"lock": "reports", "connection": self.connection, "options": self.options}
        self.processes.append(script(code, flags=STRICT, **arguments))
        return self.processes[-1]

    def run(self, code: str) -> list[str]:
        """Run a process to its end, which must be a good one without a word on stderr; return what it said."""
        output, errors = self.start(code).communicate(timeout=60)
        assert (self.processes[-1].returncode, without_remarks(errors)) == (0, "")
        return output.splitlines()

    def free(self, *, within: float = 1.0) -> None:
        with LockClient(self.connection, options=self.options).lock("reports", timeout=within):
            pass


@pytest.fixture
def place(connection_string: str, container_name: str) -> Iterator[Place]:
    here = Place(connection_string, container_name)
    yield here
    for process in here.processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its forked children, too: they hold its pipes
        process.communicate()


def ended(process: subprocess.Popen[str], *, within: float) -> tuple[int, str]:
    """Wait for a process's end; return its exit code and what it said on stderr."""
    start = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < within + SLACK
    return process.returncode, without_remarks(errors)


def without_remarks(errors: str) -> str:
    """Leave out what asyncio's debug mode remarks on a busy machine."""
    return "".join(line for line in errors.splitlines(keepends=True) if not line.startswith("Executing <"))


# --- the end of a process --------------------------------------------------------------------------------------------


def test_a_process_that_used_locks_ends_quietly(place: Place) -> None:
    said = place.run(
        """
        with locks.lock(LOCK) as hold: say("sync", not hold.lost.is_set())
        async def main():
            async with alocks.lock(LOCK) as hold: say("async", not hold.lost.is_set())
        asyncio.run(main())
        """
    )
    assert said == ["sync True", "async True"]
    place.free()


@pytest.mark.parametrize("way", ["sys.exit(0)", "raise SystemExit", "os.kill(os.getpid(), signal.SIGINT)"])
def test_leaving_the_block_by_the_end_of_the_process_frees_the_lock(place: Place, way: str) -> None:
    process = place.start(f"with locks.lock(LOCK):\n    say('in')\n    {way}\n    time.sleep(60)")
    assert next(started(process)) == "in"
    code, errors = ended(process, within=PROMPTLY)
    assert code in (0, 1, -signal.SIGINT, 130)
    assert "KeyboardInterrupt" in errors or errors == ""
    place.free()


def test_a_process_ends_promptly_while_a_daemon_thread_holds(place: Place) -> None:
    process = place.start(
        """
        inside = threading.Event()
        def hold():
            with locks.lock(LOCK):
                inside.set()
                time.sleep(60)
        threading.Thread(target=hold, daemon=True).start()
        inside.wait()
        say("in")
        """
    )
    assert next(started(process)) == "in"
    code, errors = ended(process, within=PROMPTLY)
    # Said once: nothing stops the thread before the process ends, so the lease is left to lapse (B10).
    assert (code, errors) == (0, "lock reports: hold lost (closed)\n")


def test_a_process_lets_the_threads_of_its_pools_end_under_their_locks_in_turn(place: Place) -> None:
    said = place.run(
        """
        from concurrent.futures import ThreadPoolExecutor
        def use(number):
            with locks.lock(LOCK) as hold:
                time.sleep(0.3)
                say(number, hold.lost.reason)
        def listen():
            with locks.leadership("listener") as leadership:
                hold = leadership.wait()
                time.sleep(0.7)
                say("leads", hold.lost.reason)
        pool = ThreadPoolExecutor()
        for number in range(2): pool.submit(use, number)
        pool.submit(listen)
        """
    )
    assert sorted(said) == ["0 None", "1 None", "leads None"]
    place.free()


def test_closing_its_client_ends_a_process_whose_thread_waits(place: Place) -> None:
    with LockClient(place.connection, options=place.options).lock("reports"):
        process = place.start(
            """
            def wait():
                say("waits")
                locks.acquire(LOCK)
            threading.excepthook = lambda told: say(told.exc_type.__name__)
            threading.Thread(target=wait).start()
            time.sleep(1)
            locks.close()
            """
        )
        assert [*started(process)] == ["waits", "LockClosed"]
        assert ended(process, within=PROMPTLY) == (0, "")


def test_a_process_ends_promptly_while_its_coroutines_hold_and_wait(place: Place) -> None:
    place.run(
        """
        async def use():
            async with alocks.lock(LOCK): await asyncio.sleep(60)
        async def main():
            tasks = [asyncio.create_task(use()) for _ in range(20)]
            await asyncio.sleep(1)
        asyncio.run(main())
        """
    )
    place.free()


def test_a_process_that_is_interrupted_while_it_waits_ends_promptly(place: Place) -> None:
    with LockClient(place.connection, options=place.options).lock("reports"):
        process = place.start("say('waits')\nwith locks.lock(LOCK): say('in')")
        assert next(started(process)) == "waits"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        code, errors = ended(process, within=PROMPTLY)
        assert code in (-signal.SIGINT, 130, 1)
        assert errors.rstrip().endswith("KeyboardInterrupt")
    place.free()


def test_a_process_that_ends_while_its_first_request_is_under_way_ends_promptly(place: Place) -> None:
    """The SDK's client asks for threads, which an interpreter that ends does not give.

    Importing the SDK goes first, and takes what it takes on this machine now.
    """
    start = time.monotonic()
    place.run("import azure.storage.blob.aio")
    importing = time.monotonic() - start
    for delay in (0, 0.3, 0.6, 1.0):
        process = place.start(
            f"""
            import logging
            logging.disable()
            threading.excepthook = lambda _: None
            def use():
                with locks.lock(LOCK): time.sleep(60)
            for _ in range(3): threading.Thread(target=use, daemon=True).start()
            time.sleep({delay})
            say("ends")
            """
        )
        assert next(started(process)) == "ends"
        code, errors = ended(process, within=2 * importing)
        assert (code, errors) == (0, "")


# --- forks ---------------------------------------------------------------------------------------------------------


def test_a_forked_child_holds_nothing_and_has_a_lock_thread_of_its_own(place: Place) -> None:
    said = place.run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        with locks.lock(LOCK) as hold:
            child = os.fork()
            if child == 0:
                say("child", hold.lost.reason)
                try:
                    with locks.lock(LOCK, timeout=0): say("child is in")
                except LockNotAcquired:
                    say("child is kept out")
                with locks.lock("own"): say("child has its own", *[t.name for t in threading.enumerate()
                    if t.name == "singleton-locks"])
                sys.exit(0)
            say("child ended", os.waitpid(child, 0)[1])
            say("parent", hold.lost.reason)
        with locks.lock(LOCK, timeout=0): say("parent goes on")
        with locks.lock("own", timeout=0): say("parent has the child's")
        """
    )
    assert said == [
        *("child closed", "child is kept out", "child has its own singleton-locks", "child ended 0"),
        *("parent None", "parent goes on", "parent has the child's"),
    ]


def test_a_fork_while_others_wait_and_the_sdk_is_being_imported_hangs_nobody(place: Place) -> None:
    said = place.run(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        def use():
            with locks.lock(LOCK): time.sleep(0.01)
        for delay in (0, 0.2, 0.2, 0.2, 0.5):
            threads = [threading.Thread(target=use) for _ in range(5)]
            for thread in threads: thread.start()
            time.sleep(delay)
            child = os.fork()
            if child == 0:
                with locks.lock("other"): pass
                os._exit(7)
            say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            for thread in threads: thread.join()
        """
    )
    assert said == ["7"] * 5


def test_a_fork_while_a_client_is_being_made_hangs_nobody(place: Place) -> None:
    said = place.run(
        """
        import warnings
        from azure.storage.blob.aio import ContainerClient
        warnings.simplefilter("ignore", DeprecationWarning)
        making = threading.Lock()
        def make(container):
            with making:
                time.sleep(0.3)
                return ContainerClient.from_connection_string(os.environ["LOCKS"], container, retry_total=0)
        mine = LockClient(make, options=OPTIONS)
        def use():
            with mine.lock(LOCK): pass
        thread = threading.Thread(target=use)
        thread.start()
        while not making.locked(): time.sleep(0.001)
        child = os.fork()
        if child == 0:
            with mine.lock("other"): pass
            os._exit(7)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
        """
    )
    assert said == ["7"]


FIRST_USES = {
    "a client": "with locks.lock(name): pass",
    "a client by the SDK": "with sdk.lock(name): pass",
    "a coroutine": "asyncio.run(inside(name))",
    "a guard": "job(name)",
    "an inbox": "inbox.send(name, 1)",
    "work done once": "with once(locks, name): pass",
}
FIRST_USE = """
import logging, warnings
from singleton import Inbox, once, singleton
warnings.simplefilter("ignore", DeprecationWarning)
logging.disable()  # a guard warns of a host id that a machine gives
os.environ["AzureWebJobsStorage"] = os.environ["LOCKS"]
os.environ["AzureFunctionsJobHost__singleton__container"] = OPTIONS.container
sdk = LockClient(os.environ["LOCKS"], options=OPTIONS.replace(http="sdk"))
inbox = Inbox(OPTIONS.container[:60])
@singleton(name="job")
def job(name): pass
async def inside(name):
    async with alocks.lock(name): pass
def use(name):
    {use}
"""


@pytest.mark.parametrize("use", FIRST_USES.values(), ids=FIRST_USES)
def test_a_fork_waits_for_whatever_a_first_use_imports(place: Place, use: str) -> None:
    """On any thread. The standard library imports codecs, which nobody reads in the code."""
    said = place.run(
        FIRST_USE.format(use=use)
        + """
from singleton.base.forks import importing
class Finder:
    def find_spec(self, name, path=None, target=None):
        if threading.get_ident() not in importing._threads:
            say("imported", name)
sys.meta_path.insert(0, Finder())
for name in ("first", "second"): use(name)
say("done")
"""
    )
    assert said == ["done"]


@pytest.mark.parametrize("of", ["a client", "a guard", "an inbox"])
def test_children_forked_beside_a_first_use_do_the_same(place: Place, of: str) -> None:
    said = place.run(
        FIRST_USE.format(use=FIRST_USES[of])
        + """
thread = threading.Thread(target=use, args=("first",))
thread.start()
children = []
while thread.is_alive() and len(children) < 3:
    child = os.fork()
    if child == 0:
        signal.alarm(40)
        use(f"child-{len(children)}")
        os._exit(7)
    children.append(child)
thread.join()
say(*{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children})
"""
    )
    assert said == ["7"]


def test_processes_of_a_pool_exclude_one_another(place: Place) -> None:
    said = place.run(
        """
        import multiprocessing, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        def use(number):
            for _ in range(5):
                with locks.lock(LOCK) as hold:
                    say("in", number)
                    time.sleep(0.02)
                    say("out", number)
        with locks.lock(LOCK): pass
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=use, args=(number,)) for number in range(4)]
        for child in children: child.start()
        for child in children: child.join()
        say(*[child.exitcode for child in children])
        """
    )
    assert said.pop() == "0 0 0 0"
    assert len(said) == 40
    for entered, left in zip(said[::2], said[1::2], strict=True):
        assert entered.replace("in", "out") == left
