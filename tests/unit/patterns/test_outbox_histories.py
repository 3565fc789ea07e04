"""Random histories of an outbox: relays come, fail, die before any statement, and come late with an old token."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from singleton import LockLost
from singleton.patterns.outbox import OutboxRelay
from singleton.patterns.sql import SqlOutbox
from tests.support.patterns import add, column, go_by, held, sqlite_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

    from singleton.patterns.outbox import Message


@dataclass(frozen=True)
class Run:
    """A relay's run: how much older its token is than the last, which sends fail, and at which statement it dies."""

    late: int = 0
    fails: frozenset[int] = frozenset()
    dies: int = 0


class Died(BaseException):
    pass


@dataclass
class Net:
    """What the receiver got; ``fails`` are numbers of the sends of this run."""

    engine: Engine
    run: Run = field(default_factory=Run)
    sends: int = 0
    statements: int = 0
    got: list[Message] = field(default_factory=list)

    def begin(self, run: Run) -> None:
        self.run, self.sends, self.statements = run, 0, 0

    def send(self, message: Message) -> None:
        self.sends += 1
        if self.sends in self.run.fails:
            raise OSError("no")
        self.got.append(message)

    def executes(self, *_: object) -> None:
        self.statements += 1
        if self.statements == self.run.dies:
            raise Died


RUNS = st.builds(
    Run,
    late=st.sampled_from([0, 0, 0, 1, 2]),
    fails=st.frozensets(st.integers(1, 6), max_size=3),
    dies=st.sampled_from([0, 0, *range(1, 40)]),
)
STEPS = st.lists(st.one_of(RUNS, st.sampled_from(["a", "b", ""]), st.just(100.0)), min_size=3, max_size=10)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = sqlite_engine(tmp_path_factory.mktemp("histories") / "app.db")
    yield engine
    engine.dispose()


@pytest.mark.parametrize("on_poison", ["skip", "stop"])
@settings(max_examples=20)
@given(steps=STEPS)
def test_whatever_happens_nothing_is_lost_and_the_order_of_each_key_is_kept(
    database: Engine, on_poison: Any, steps: list[Any]
) -> None:
    outbox = SqlOutbox(database)
    outbox.table.metadata.drop_all(database)
    outbox.create_table()
    net = Net(database)
    relay = OutboxRelay(outbox, net.send, attempts=4, batch=3, on_poison=on_poison)
    token, added = 10, list[str]()
    for step in steps:
        if isinstance(step, str):
            added.append(f"{step}{len(added)}")
            add(database, outbox, added[-1])
        elif isinstance(step, float):
            go_by(database, outbox.table, step)
        else:
            token += 1
            seen = max(column(database, outbox._fence, "token"), default=0)
            before = (len(net.got), column(database, outbox.table, "state"))
            net.begin(step)
            event.listen(database, "before_cursor_execute", net.executes)
            try:
                relay.work(held(token - step.late))
            except LockLost:
                assert token - step.late < seen
            except Died:
                pass
            finally:
                event.remove(database, "before_cursor_execute", net.executes)
            if token - step.late < seen:
                assert (len(net.got), column(database, outbox.table, "state")) == before
    net.begin(Run())
    for _ in range(4):
        go_by(database, outbox.table, 1000)
        relay.work(held(token + 1))
        for poison in outbox.poisoned():
            outbox.put_back(poison["id"])
    assert sorted({message.id for message in net.got}) == sorted(added)
    assert set(column(database, outbox.table, "state")) <= {"sent"}
    firsts = defaultdict[str | None, list[int]](list)
    for message in {message.id: message for message in reversed(net.got)}.values():
        firsts[message.key].insert(0, message.position)
    if on_poison == "stop":
        assert all(positions == sorted(positions) for key, positions in firsts.items() if key is not None)
