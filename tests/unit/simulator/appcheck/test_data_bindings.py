"""Which input and output bindings of guarded functions are told: the host reads and writes them without the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.checked import checked

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

BOTH: Final = "input-is-output"
READ: Final = "input-before-lock"
WRITTEN: Final = "output-after-lock"
OURS: Final = (BOTH, READ, WRITTEN)
SETTINGS: Final[Mapping[str, str]] = {
    "BOX": "state",
    "Orders": "AccountName=orders;AccountKey=c2VjcmV0",
    "SameOrders": "EndpointSuffix=core.windows.net;AccountName=orders;AccountKey=b3RoZXI=",
    "ByIdentity__accountName": "orders",
    "Archive": "AccountName=archive;AccountKey=c2VjcmV0",
    "OtherCosmos": "AccountEndpoint=https://cosmos.example:443/;AccountKey=c2VjcmV0;",
    "FarCosmos": "AccountEndpoint=https://far.example/;AccountKey=c2VjcmV0;",
    "Sql": "Server=tcp:shop.example,1433;Initial Catalog=Shop;User ID=a;Password=b",
    "SqlToo": "data source=SHOP.example;database=shop;Authentication=Active Directory Default",
    "SqlOther": "Server=shop.example;Database=stock",
}
BLOB: Final = "connection='Orders'"
COSMOS: Final = "connection='Cosmos', database_name='shop', container_name='orders'"


def found(folder: Path, read: str, written: str = "", guard: str = "@singleton", kind: str = "str") -> list[str]:
    """Return what is found of a function with an input ``data`` and an output ``out``, each as its decorator."""
    parameters = ["msg: func.QueueMessage"]
    if read:
        parameters.append(f"data: {kind}")
    if written and "$return" not in written:
        parameters.append("out: func.Out[str]")
    lines = ["@queue()", *filter(None, [read and f"@app.{read}", written and f"@app.{written}", guard])]
    clients = f"{INBOXES}class BlobClient: ...\nclass ContainerProxy: ...\nclass StorageStreamDownloader: ...\n"
    code = "\n".join([clients, *lines, f"def ship({', '.join(parameters)}): ...\n"])
    told = checked(folder, code, settings=SETTINGS).findings
    return [each.id for each in told if each.id in OURS]


def blob_in(path: str = "state/total.txt", connection: str = "Orders") -> str:
    return f"blob_input(arg_name='data', path={path!r}, connection={connection!r})"


def blob_out(path: str = "state/total.txt", connection: str = "Orders", name: str = "out") -> str:
    return f"blob_output(arg_name={name!r}, path={path!r}, connection={connection!r})"


def cosmos_in(where: str = COSMOS) -> str:
    return f"cosmos_db_input(arg_name='data', {where}, id='{{Id}}')"


def cosmos_out(where: str = COSMOS) -> str:
    return f"cosmos_db_output(arg_name='out', {where})"


def table_in(row: str, connection: str = "Orders") -> str:
    return f"table_input(arg_name='data', table_name='Totals', connection={connection!r}{row})"


def table_out(row: str, name: str = "Totals") -> str:
    return f"table_output(arg_name='out', table_name={name!r}, connection='Orders'{row})"


def sql_in(query: str, connection: str = "Sql", more: str = "") -> str:
    return f"sql_input(arg_name='data', command_text={query!r}, connection_string_setting={connection!r}{more})"


def sql_out(table: str, connection: str = "Sql") -> str:
    return f"sql_output(arg_name='out', command_text={table!r}, connection_string_setting={connection!r})"


def generic(direction: str, name: str, kind: str, **fields: str) -> str:
    given = "".join(f", {key}={value!r}" for key, value in fields.items())
    return f"generic_{direction}_binding(arg_name={name!r}, type={kind!r}{given})"


def dapr(direction: str, name: str, key: str) -> str:
    return f"dapr_state_{direction}(arg_name={name!r}, state_store='store', key={key!r}, dapr_address=None)"


def redis(direction: str, name: str, command: str) -> str:
    return generic(direction, name, "redis", command=command, connection="Redis")


ONE: Final = {
    "a blob": (blob_in(), blob_out()),
    "a blob as the return value": (blob_in(), blob_out(name="$return")),
    "a blob of the message": (blob_in("state/{Id}.txt"), blob_out("state/{ id }.txt")),
    "a setting in the path": (blob_in("%BOX%/total.txt"), blob_out("state/total.txt")),
    "a setting in another case": (blob_in("%box%/total.txt"), blob_out("%BOX%/total.txt")),
    "a setting that is not known": (blob_in("%NONE%/a"), blob_out("%none%/a")),
    "a slash at the start": (blob_in("/state/total.txt"), blob_out()),
    "an address": (blob_in("https://orders.blob.core.windows.net/state/total.txt"), blob_out()),
    "two settings of one account": (blob_in(connection="Orders"), blob_out(connection="SameOrders")),
    "one of them with an identity": (blob_in(connection="ByIdentity"), blob_out(connection="Orders")),
    "the default account": (blob_in(connection=""), blob_out(connection="Storage")),
    "generic bindings": (
        generic("input", "data", "Blob", path="state/total.txt", connection="Orders"),
        blob_out(),
    ),
    "a container of documents": (cosmos_in(), cosmos_out()),
    "an account of documents by two settings": (cosmos_in(), cosmos_out(COSMOS.replace("'Cosmos'", "'OtherCosmos'"))),
    "older names of a container": (
        generic("input", "data", "cosmosDB", databaseName="shop", collectionName="orders", connection="Cosmos"),
        cosmos_out(),
    ),
    "an entity": (table_in(", partition_key='a', row_key='b'"), table_out(", partition_key='a', row_key='b'")),
    "a partition, with the rows in the data": (table_in(", partition_key='{Id}'"), table_out(", partition_key='{id}'")),
    "rows": (sql_in("select * from dbo.Totals where Id = @Id"), sql_out("dbo.Totals")),
    "rows in other spellings": (sql_in("SELECT t.* FROM [dbo].[Totals] AS t"), sql_out("totals", "SqlToo")),
    "rows of a join": (sql_in("select 1 from a\njoin dbo.Totals t on t.a = a.b"), sql_out("[Totals]")),
    "rows of MySQL": (
        "mysql_input(arg_name='data', command_text='select * from `shop`.`totals`', connection_string_setting='My')",
        "mysql_output(arg_name='out', command_text='totals', connection_string_setting='My')",
    ),
    "a key of Redis": (redis("input", "data", "GET total"), redis("output", "out", "set total")),
    "a key that expires": (redis("input", "data", "GET {Id}"), redis("output", "out", "SETEX { id } 30")),
    "a field of a hash": (redis("input", "data", "HGET sums a"), redis("output", "out", "HSET sums a")),
    "a hash": (redis("input", "data", "HGETALL sums"), redis("output", "out", "HSET sums a")),
    "Dapr state": (dapr("input", "data", "{Id}"), dapr("output", "out", "{id}")),
}
"""Bindings of one target, in many spellings."""
TWO: Final = {
    "blobs": (blob_in(), blob_out("state/sums.txt")),
    "blobs that differ by case": (blob_in("state/a"), blob_out("state/A")),
    "blobs of two accounts": (blob_in(connection="Orders"), blob_out(connection="Archive")),
    "containers": (cosmos_in(), cosmos_out(COSMOS.replace("'orders'", "'shipped'"))),
    "accounts of documents": (cosmos_in(), cosmos_out(COSMOS.replace("'Cosmos'", "'FarCosmos'"))),
    "tables of a database": (sql_in("select Totals from dbo.Orders -- from Totals"), sql_out("dbo.Totals")),
    "schemas": (sql_in("select * from a.Totals"), sql_out("b.Totals")),
    "databases": (sql_in("select * from Totals"), sql_out("Totals", "SqlOther")),
    "a procedure": (sql_in("read_totals", more=", command_type='StoredProcedure'"), sql_out("dbo.Totals")),
    "keys of Dapr": (dapr("input", "data", "a"), dapr("output", "out", "b")),
    "keys of Redis": (redis("input", "data", "GET total"), redis("output", "out", "SET sum")),
    "a key of Redis that the data has": (redis("input", "data", "GET total"), redis("output", "out", "SET")),
    "fields of a hash": (redis("input", "data", "HGET sums a"), redis("output", "out", "HSET sums b")),
    "kinds": (blob_in(), cosmos_out()),
}
INBOXES: Final = "from singleton import Inbox, ordered\n"
GUARDS: Final = {
    "singleton": "@singleton",
    "a scope": "@singleton(scope='Id')",
    "once": "@once(key='{Id}')",
    "ordered": "@ordered(Inbox('orders'))",
    "both": "@once(key='{Id}')\n@singleton(scope='Id')",
}


@pytest.mark.parametrize(("read", "written"), ONE.values(), ids=ONE)
def test_one_target_as_input_and_output_is_an_error(tmp_path: Path, read: str, written: str) -> None:
    assert found(tmp_path, read, written) == [BOTH]


@pytest.mark.parametrize(("read", "written"), TWO.values(), ids=TWO)
def test_two_targets_are_a_warning_and_a_note(tmp_path: Path, read: str, written: str) -> None:
    assert found(tmp_path, read, written) == [READ, WRITTEN]


def test_a_table_output_adds_a_row_and_replaces_none(tmp_path: Path) -> None:
    assert found(tmp_path, table_in(", partition_key='a'"), table_out(", partition_key='b'")) == [READ]
    assert found(tmp_path / "other", "", table_out("")) == []
    row = table_in(", partition_key='settings', row_key='rates'")
    assert found(tmp_path / "open", row, table_out("")) == [READ]
    assert found(tmp_path / "half", row, table_out(", partition_key='settings'")) == [READ]


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ("out.set(func.Document.from_dict({'id': msg.id, 'price': data[0]['price']}))", False),
        ("new = {'id': f'{msg.id}-1'}; out.set(func.Document.from_dict(new))", False),
        ("out.set(func.Document.from_dict({'id': 'prices', 'price': 1}))", True),
        ("data[0]['price'] += 1; out.set(data[0])", True),
        ("doc = data[0]; out.set(func.Document.from_dict({'id': doc['id'], 'price': 1}))", True),
        ("[out.set(func.Document.from_dict({'id': doc['id']})) for doc in data]", True),
        ("...", True),
    ],
)
def test_a_document_beside_new_documents_of_its_container_is_no_target_of_them(
    body: str, is_one: bool, tmp_path: Path
) -> None:
    code = f"""
    @queue()
    @app.cosmos_db_input(arg_name='data', {COSMOS}, id='prices')
    @app.{cosmos_out()}
    @singleton
    def ship(msg: func.QueueMessage, data: func.DocumentList, out: func.Out[func.Document]) -> None:
        {body}
    """
    told = [each.id for each in checked(tmp_path, code, settings=SETTINGS).findings]
    assert told == ([BOTH] if is_one else [READ, WRITTEN])


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
@pytest.mark.parametrize("above", [True, False], ids=["above", "below"])
def test_each_kind_of_guard_is_told_once_above_and_below_the_bindings(tmp_path: Path, guard: str, above: bool) -> None:
    order = ["@queue()", f"@app.{blob_in()}", f"@app.{blob_out()}"]
    lines = [guard, *order] if above else [*order, guard]
    code = "\n".join(
        [INBOXES, *lines, "def ship(msg: func.QueueMessage, data: str, out: func.Out[str]) -> None: ...\n"]
    )
    told = checked(tmp_path, code, settings=SETTINGS).findings
    assert [each.id for each in told if each.id in OURS] == [BOTH]


@pytest.mark.parametrize("decorator", ["lock('total')", "try_lock('total', timeout=5)", "semaphore('total', 1)"])
@pytest.mark.parametrize("client", ["LockClient", "AsyncLockClient"])
def test_the_decorator_of_a_lock_client_is_told_as_a_guard_is(tmp_path: Path, client: str, decorator: str) -> None:
    code = f"""
    from singleton import {client}
    locks = {client}("AzureWebJobsStorage")

    def logged(inner):
        @functools.wraps(inner)
        def call(msg, data, out): return inner(msg, data, out)
        return call

    @queue()
    @app.{blob_in()}
    @app.{blob_out()}
    @locks.{decorator}
    {"async " * client.startswith("Async")}def ship(msg: func.QueueMessage, data: str, out: func.Out[str]) -> None: ...

    @queue()
    @app.{blob_in()}
    @logged
    @locks.{decorator}
    {"async " * client.startswith("Async")}def tell(msg: func.QueueMessage, data: str, out: str) -> None: ...

    @queue()
    @app.{blob_in()}
    def read(msg: func.QueueMessage, data: str) -> None: ...
    """
    told = [each for each in checked(tmp_path, code, settings=SETTINGS).findings if each.id in OURS]
    assert [(each.id, each.function) for each in told] == [(BOTH, "ship"), (READ, "tell")]
    assert "the host reads it before the lock client's decorator waits for the lock" in told[0].message


def test_a_function_without_a_guard_is_not_told(tmp_path: Path) -> None:
    assert found(tmp_path, blob_in(), blob_out(), guard="") == []


@pytest.mark.parametrize("kind", ["BlobClient", "ContainerProxy", "'BlobClient'", "'blob.BlobClient'"])
def test_a_client_reads_in_the_body_and_the_output_comes_late_all_the_same(tmp_path: Path, kind: str) -> None:
    assert found(tmp_path, blob_in(), kind=kind) == []
    assert found(tmp_path / "other", blob_in(), blob_out("a/b"), kind=kind) == [WRITTEN]
    assert found(tmp_path / "same", blob_in(), blob_out(), kind=kind) == [BOTH]


@pytest.mark.parametrize("kind", ["str", "bytes", "func.InputStream", "StorageStreamDownloader"])
def test_what_the_worker_reads_before_the_body_is_told(tmp_path: Path, kind: str) -> None:
    assert found(tmp_path, blob_in(), kind=kind) == [READ]


@pytest.mark.parametrize(
    "read",
    [
        cosmos_in(),
        dapr("input", "data", "a"),
        generic("input", "data", "cosmosdb", connection="Cosmos"),
        generic("input", "data", "kusto", kqlCommand="Orders", database="d", connection="Kusto"),
        generic("input", "data", "redis", command="GET total", connection="Redis"),
        sql_in("select 1 from a"),
        table_in(""),
    ],
)
def test_an_input_of_what_may_change_is_a_warning(tmp_path: Path, read: str) -> None:
    assert found(tmp_path, read) == [READ]


@pytest.mark.parametrize(
    "other",
    [
        generic("input", "data", "durableClient"),
        generic("input", "data", "signalRConnectionInfo", hubName="a"),
        generic("input", "data", "daprSecret", secretStoreName="a", key="b"),
        generic("input", "data", "ofTheUsers", path="a/b"),
    ],
)
def test_an_input_that_is_no_such_data_is_not_told(tmp_path: Path, other: str) -> None:
    assert found(tmp_path, other) == []


@pytest.mark.parametrize(
    "adding",
    [
        "queue_output(arg_name='out', queue_name='orders', connection='Orders')",
        "event_hub_output(arg_name='out', event_hub_name='h', connection='Hub')",
        "event_grid_output(arg_name='out', topic_endpoint_uri='Uri', topic_key_setting='Key')",
        "service_bus_queue_output(arg_name='out', queue_name='q', connection='Bus')",
        generic("output", "out", "sendGrid", apiKey="Key"),
        generic("output", "out", "kusto", database="d", tableName="t", connection="Kusto"),
        blob_out("done/{rand-guid}.json"),
        blob_out("done/{sys.randguid}.json"),
    ],
)
def test_an_output_that_only_adds_is_not_told(tmp_path: Path, adding: str) -> None:
    assert found(tmp_path, "", adding) == []


def test_what_the_trigger_brings_is_not_told(tmp_path: Path) -> None:
    code = """
    @app.blob_trigger(arg_name="photo", path="photos/{name}", connection="Orders")
    @singleton(scope_id="{name}")
    def resize(photo: func.InputStream) -> None: ...
    """
    told: Any = checked(tmp_path, code, settings=SETTINGS)
    assert told.findings == ()


def test_an_error_says_whose_lock_and_what_to_do(tmp_path: Path) -> None:
    code = f"""
    @queue()
    @app.{blob_in()}
    @app.{blob_out()}
    @once(key="{{Id}}")
    def ship(msg: func.QueueMessage, data: str, out: func.Out[str]) -> None: ...
    """
    error = checked(tmp_path, code, settings=SETTINGS).errors[0]
    assert "before @once waits for the lock" in error.message
    assert error.message.endswith("Read and write it in the body, with a client of its SDK")
    assert error.docs == "docs/triggers.md#input-and-output-bindings"
