"""What states of rows promise, on any SQL database: a scenario gets an engine and no tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Column, Double, Integer, MetaData, String, Table, insert, select, update
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column

from singleton.patterns.outbox import Claim, StaleClaim
from singleton.patterns.sql import RowStates, state_columns, work_table
from tests.support.patterns import column, go_by, held

if TYPE_CHECKING:
    from sqlalchemy import Engine


def made(engine: Engine, number: int = 3, **options: Any) -> RowStates:
    table = work_table(MetaData())
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(table), [{"id": str(each), "body": f"work {each}"} for each in range(number)])
    return RowStates(engine, table, **options)


def ids(claims: list[Claim]) -> list[str]:
    return [claim.key["id"] for claim in claims]


def a_row_is_claimed_by_one_and_goes_to_done(engine: Engine) -> None:
    rows = made(engine)
    one, other = rows.claim(2), rows.claim(2)
    assert (ids(one), ids(other), rows.claim()) == (["0", "1"], ["2"], [])
    assert (one[0].version, one[0].attempt, one[0].row["body"], one[0].row["status"]) == (1, 1, "work 0", "Pending")
    for claim in one + other:
        rows.done(claim)
    assert column(engine, rows.table, "status") == ["Done"] * 3
    go_by(engine, rows.table, 1000)
    assert rows.claim() == []


def a_row_that_is_stuck_is_claimed_again_and_its_old_claimer_refused(engine: Engine) -> None:
    rows = made(engine, 1)
    (old,) = rows.claim()
    go_by(engine, rows.table, 299)
    assert rows.claim() == []
    go_by(engine, rows.table, 2)
    (new,) = rows.claim()
    assert (new.version, new.attempt) == (2, 2)
    for late in (rows.done, rows.renew, rows.give_back, lambda claim: rows.failed(claim, "late")):
        with pytest.raises(StaleClaim, match="does not belong to claim 1"):
            late(old)
    rows.done(new)
    with pytest.raises(StaleClaim):
        rows.done(new)


def a_row_that_somebody_has_claimed_since_it_was_read_is_not_claimed(engine: Engine) -> None:
    # As on a database in which claimers do not wait for one another.
    rows = made(engine, 1)
    with engine.begin() as connection:
        read = connection.execute(select(rows.table)).mappings().one()
    (claim,) = rows.claim()
    with engine.begin() as connection:
        assert rows._claimed(connection, read, None) is None
    rows.done(claim)


def claimers_side_by_side_never_get_the_same_row_and_none_fails(engine: Engine) -> None:
    rows = made(engine, 60)
    with ThreadPoolExecutor(4) as pool:
        claimers = [pool.submit(lambda: list(iter(lambda: rows.claim(2), []))) for _ in range(4)]
        taken = [claim.key["id"] for each in claimers for batch in each.result(60) for claim in batch]
    assert len(taken) == len(set(taken)) == 60


def the_effect_and_done_are_one_transaction(engine: Engine) -> None:
    rows = made(engine, 1)
    (old,) = rows.claim()
    go_by(engine, rows.table, 301)
    (new,) = rows.claim()

    def book(claim: Claim) -> None:
        with Session(engine) as session, session.begin():
            session.execute(update(rows.table).values(body=f"booked by claim {claim.version}"))
            rows.done(claim, session)

    with pytest.raises(StaleClaim):
        book(old)
    assert column(engine, rows.table, "body") == ["work 0"]
    book(new)
    assert column(engine, rows.table, "body") == ["booked by claim 2"]
    assert column(engine, rows.table, "status") == ["Done"]


def a_row_that_fails_comes_again_after_its_rest_and_is_failed_in_the_end(engine: Engine) -> None:
    rows = made(engine, 1, attempts=2)
    (claim,) = rows.claim()
    rows.failed(claim, OSError("at postgresql://me:secret@host/db"), retry_in=60)
    assert rows.claim() == []
    assert column(engine, rows.table, "error") == ["OSError: at postgresql://***@host/db"]
    go_by(engine, rows.table, 61)
    (claim,) = rows.claim()
    rows.failed(claim, "again", retry_in=60)
    assert (column(engine, rows.table, "status"), column(engine, rows.table, "error")) == (["Failed"], ["again"])
    go_by(engine, rows.table, 1000)
    assert rows.claim() == []
    assert rows.put_back("0")
    assert not rows.put_back("0")
    (claim,) = rows.claim()
    assert (claim.version, claim.attempt) == (3, 1)


def a_row_whose_claimers_all_die_is_failed_and_holds_up_nobody(engine: Engine) -> None:
    rows = made(engine, 2, attempts=2)
    for _ in range(2):
        assert ids(rows.claim()) == ["0"]
        go_by(engine, rows.table, 301)
    assert ids(rows.claim()) == ["1"]
    assert column(engine, rows.table, "status") == ["Failed", "Processing"]
    assert column(engine, rows.table, "error")[0] == "its last claimer did not end"


def a_row_that_was_left_in_processing_before_there_was_a_time_is_stuck(engine: Engine) -> None:
    rows = made(engine, 1)
    with engine.begin() as connection:
        connection.execute(update(rows.table).values(status="Processing"))
    (claim,) = rows.claim()
    rows.done(claim)


def what_was_not_begun_can_be_given_back_and_long_work_renews(engine: Engine) -> None:
    rows = made(engine, 2)
    one, other = rows.claim(2)
    rows.give_back(one)
    go_by(engine, rows.table, 299)
    rows.renew(other)
    go_by(engine, rows.table, 299)
    (again,) = rows.claim(2)
    assert (again.key, again.version, again.attempt) == ({"id": "0"}, 2, 1)
    rows.done(other)


def a_smaller_token_claims_nothing_where_a_greater_one_was(engine: Engine) -> None:
    rows = made(engine, 2)
    (claim,) = rows.claim(token=held(7))
    assert claim.token == 7
    rows.failed(claim, "no")
    assert ids(rows.claim(2, token=6)) == ["1"]
    assert ids(rows.claim(2)) == ["0"]  # without a lock nothing is asked of tokens, and nothing forgotten
    assert column(engine, rows.table, "token") == [7, 6]


def while_locking_is_switched_off_each_row_is_claimed_and_keeps_the_token_that_it_has(engine: Engine) -> None:
    rows = made(engine, 1)
    (earlier,) = rows.claim(token=held(7))
    go_by(engine, rows.table, 1000)
    (claim,) = rows.claim(token=held(None))
    assert (claim.token, claim.version) == (None, 2)
    with pytest.raises(StaleClaim):
        rows.done(earlier)
    rows.give_back(claim)
    assert column(engine, rows.table, "token") == [7]
    assert rows.claim(token=held(6)) == []
    assert ids(rows.claim(token=held(8))) == ["0"]


def a_smaller_token_writes_nothing_where_a_greater_one_was_whatever_the_version(engine: Engine) -> None:
    rows = made(engine, 2)
    one, other = rows.claim(2, token=held(5))
    with engine.begin() as connection:  # an operator set this row back by hand, its version with it
        back = {"status": "Pending", "version": 0, "claimed_at": None}
        connection.execute(update(rows.table).where(rows.table.c.id == "0").values(back))
    (again,) = rows.claim(token=held(6))
    assert again.version == one.version
    for late in (rows.done, rows.renew, rows.give_back, lambda claim: rows.failed(claim, "late")):
        with pytest.raises(StaleClaim):
            late(one)
    rows.done(again)
    rows.done(other)


def an_error_that_no_database_takes_is_kept_as_far_as_it_can_be(engine: Engine) -> None:
    rows = made(engine, 2)
    one, other = rows.claim(2)
    rows.failed(one, OSError("in \0 and \udcff"))
    rows.failed(other, "in \0")
    assert column(engine, rows.table, "error") == ["OSError: in ? and ?", "in ?"]


def a_table_of_the_users_own_may_have_names_of_its_own(engine: Engine) -> None:
    table = Table(
        "invoices",
        MetaData(),
        Column("tenant", String(10), primary_key=True),
        Column("number", Integer, primary_key=True),
        Column("phase", String(10)),
        Column("taken", Double),
        *[each for each in state_columns() if each.name not in {"status", "claimed_at"}],
    )
    table.metadata.create_all(engine)
    with engine.begin() as connection:
        values = [{"tenant": tenant, "number": number, "phase": "new"} for tenant in "ab" for number in (1, 2)]
        connection.execute(insert(table), values)
    rows = RowStates(
        engine,
        table,
        columns={"status": "phase", "claimed_at": "taken"},
        states={"pending": "new", "processing": "open", "done": "paid"},
        where=table.c.tenant == "a",
        order_by=table.c.number.desc(),
    )
    claims = rows.claim(5)
    assert [claim.key for claim in claims] == [{"tenant": "a", "number": 2}, {"tenant": "a", "number": 1}]
    rows.done(claims[0])
    assert column(engine, table, "phase") == ["open", "paid", "new", "new"]
    assert not rows.put_back(("a", 1))


def a_mapped_class_will_do(engine: Engine) -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        id = mapped_column(Integer, primary_key=True)
        status, version, attempts, claimed_at, token, error = state_columns()

    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Order(id=1))
    rows = RowStates(engine, Order)
    (claim,) = rows.claim()
    with Session(engine) as session, session.begin():
        order = session.get(Order, 1)
        assert order is not None
        assert order.status == "Processing"
        rows.done(claim, session)
    assert column(engine, rows.table, "status") == ["Done"]


SCENARIOS: tuple[Any, ...] = (
    a_row_is_claimed_by_one_and_goes_to_done,
    a_row_that_is_stuck_is_claimed_again_and_its_old_claimer_refused,
    a_row_that_somebody_has_claimed_since_it_was_read_is_not_claimed,
    claimers_side_by_side_never_get_the_same_row_and_none_fails,
    the_effect_and_done_are_one_transaction,
    a_row_that_fails_comes_again_after_its_rest_and_is_failed_in_the_end,
    a_row_whose_claimers_all_die_is_failed_and_holds_up_nobody,
    a_row_that_was_left_in_processing_before_there_was_a_time_is_stuck,
    what_was_not_begun_can_be_given_back_and_long_work_renews,
    a_smaller_token_claims_nothing_where_a_greater_one_was,
    while_locking_is_switched_off_each_row_is_claimed_and_keeps_the_token_that_it_has,
    a_smaller_token_writes_nothing_where_a_greater_one_was_whatever_the_version,
    an_error_that_no_database_takes_is_kept_as_far_as_it_can_be,
    a_table_of_the_users_own_may_have_names_of_its_own,
    a_mapped_class_will_do,
)
