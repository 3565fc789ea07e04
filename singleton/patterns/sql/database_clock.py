"""The database's clock, as seconds since 1970: clocks of processes differ, and all claimers of a row share this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import ColumnElement

from singleton.base.errors import ConfigurationError

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

_CLOCKS: Final = {
    "mssql": "(DATEDIFF_BIG(MICROSECOND, '1970-01-01', SYSUTCDATETIME()) / 1000000.0)",
    "mariadb": "UNIX_TIMESTAMP(SYSDATE(6))",
    "mysql": "UNIX_TIMESTAMP(SYSDATE(6))",
    "oracle": "((CAST(SYS_EXTRACT_UTC(SYSTIMESTAMP) AS DATE) - DATE '1970-01-01') * 86400)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) AS DOUBLE PRECISION)",
    "sqlite": "((JULIANDAY('now') - 2440587.5) * 86400.0)",
}


class Now(ColumnElement[float]):
    """The time at which the statement runs."""

    inherit_cache = True
    type = Double()


@compiles(Now)
def _now(_: Now, compiler: SQLCompiler, **__: Any) -> str:
    name = compiler.dialect.name
    if name not in _CLOCKS:
        raise ConfigurationError(f"databases of the kind {name} are not supported: use {', '.join(sorted(_CLOCKS))}")
    return _CLOCKS[name]
