"""Outbox and row states in any SQL database, by SQLAlchemy 2 (extra ``[sql]``), which only this room may import.

Statements run in the user's own database and, where necessary, in the user's own transaction.
"""

from __future__ import annotations

try:
    import sqlalchemy as _sqlalchemy
except ImportError as _error:
    from singleton.base.errors import ConfigurationError

    raise ConfigurationError(
        "singleton.patterns.sql needs SQLAlchemy 2 (the extra [sql]): add sqlalchemy>=2,<3 to requirements.txt"
    ) from _error
if int(_sqlalchemy.__version__.split(".")[0]) != 2:
    from singleton.base.errors import ConfigurationError

    raise ConfigurationError(f"singleton.patterns.sql needs SQLAlchemy 2; installed is {_sqlalchemy.__version__}")

from singleton.patterns.outbox import Claim, StaleClaim
from singleton.patterns.sql.rowstates import AsyncRowStates, RowStates
from singleton.patterns.sql.sql_outbox import AsyncSqlOutbox, SqlOutbox
from singleton.patterns.sql.tables import outbox_table, state_columns, work_table

__all__ = [
    "AsyncRowStates",
    "AsyncSqlOutbox",
    "Claim",
    "RowStates",
    "SqlOutbox",
    "StaleClaim",
    "outbox_table",
    "state_columns",
    "work_table",
]
