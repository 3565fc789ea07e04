"""Apps with a mistake that a worker meets as it loads them, by the rows of docs/reference/errors.md, and right apps."""

from __future__ import annotations

from pathlib import Path

HEAD = """
import azure.functions as func
from singleton import Inbox, LockClient, OldLock, once, ordered, singleton
app = func.FunctionApp()
"""
QUEUE = "@app.queue_trigger(arg_name='msg', queue_name='q', connection='AzureWebJobsStorage')\n"
RETURNS = "@app.queue_output(arg_name='$return', queue_name='next', connection='AzureWebJobsStorage')\n"
TIMER = "@app.timer_trigger(arg_name='msg', schedule='0 * * * * *')\n"
MANY = "@app.generic_trigger(arg_name='msg', type='eventHubTrigger', cardinality=func.Cardinality.MANY)\n"
DOCUMENTS = "@app.generic_trigger(arg_name='msg', type='cosmosDBTrigger')\n"
TOOL = "@app.generic_trigger(arg_name='msg', type='mcpToolTrigger', toolProperties='[]')\n"
JOB = "\ndef job(msg: func.QueueMessage) -> str: ...\n"
TEXT = "\ndef job(msg: str) -> str: ...\n"
TICK = "\ndef job(msg: func.TimerRequest) -> None: ...\n"
REQUEST = "\ndef job(msg: func.HttpRequest) -> str: ...\n"
ROUTE = "@app.route(route='x', trigger_arg_name='msg')\n"
FIRST = f"{QUEUE}@singleton(name='n', scope='Id')\ndef first(msg: func.QueueMessage) -> None: ...\n"
BELLS = QUEUE.replace("'q'", "'orders'")
BLOB = "@app.blob_trigger(arg_name='msg', path='in/{name}', connection='AzureWebJobsStorage')\n"
STREAMED = "class Streamed: path_params = query_params = {}\n"
DOTS = "scope_id='..', level='host'"
APPS = {
    "an argument of a decorator": [
        *(f"{QUEUE}@once(key={given}){JOB}" for given in ("lambda: 1", "lambda msg, other: 1", "lambda *, msg: 1")),
        *(f"{QUEUE}@singleton({given}){JOB}" for given in ("scope=''", "limit=0", "also=OldLock()", "layout='webjob'")),
        f"@app.function_name('pay')\n{QUEUE}@singleton(also=OldLock(name='pay')){JOB}",
        f"{QUEUE}@singleton\n@singleton{JOB}",
        f"{QUEUE}@once(key=''){JOB}",
        "@app.generic_trigger(arg_name='msg', type='orchestrationTrigger')\n@singleton\ndef job(msg): ...\n",
    ],
    "a policy or a mode": [
        *(f"{TIMER}@singleton(on_contention={policy!r}){TICK}" for policy in ("defer", "conflict")),
        f"@singleton(on_contention='defer')\n{TIMER.rstrip()}{TICK}",
        f"@app.schedule(arg_name='msg',\n    schedule='0 * * * * *')\n@singleton(on_contention='defer'){TICK}",
        f"{ROUTE}@singleton(on_contention='skip'){REQUEST}",
        f"{QUEUE}{RETURNS}@singleton(on_contention='skip'){JOB}",
        f"{QUEUE}{RETURNS}@singleton(on_contention='coalesce'){JOB}",
        f"{QUEUE}{RETURNS}@singleton(max_waiting=1, when_full='defer'){JOB}",
        f"{QUEUE}{RETURNS}@singleton(mode='listener'){JOB}",
        f"{QUEUE}{RETURNS}@once(key='Id', outputs='first'){JOB}",
        f"{RETURNS}@singleton(on_contention='skip')\n{QUEUE.rstrip()}{JOB}",
        f"{QUEUE}@once(key='Id', on_contention='conflict'){JOB}",
        f"@singleton(on_contention='defer'){TICK}{TIMER[1:].rstrip()}(job)\n",
        f"{QUEUE}@singleton(on_contention='defer'){TEXT}",
        f"{QUEUE}@singleton(mode='listener'){TEXT}",
        f"{TIMER}@singleton(mode='listener', layout='webjobs'){TICK}",
    ],
    "a scope or a key": [
        f"{QUEUE}@singleton(scope='{{Id}}'){JOB}",
        *(f"{TIMER}@singleton({given}){TICK}" for given in ("scope='Id'", "scope_id='a-{Id}'")),
        *(f"{TIMER}@once(key={key}){TICK}" for key in ("'Id'", "'{Id}'")),
        f"{MANY}@singleton(scope='Id'){JOB}",
        f"{MANY}@once(key='{{Id}}'){JOB}",
        f"{DOCUMENTS}@singleton(scope='Id'){JOB}",
        *(f"{TOOL}@{guard}{TEXT}" for guard in ("singleton(scope='Nope')", "singleton(scope_id='{Nope}')")),
        f"{TOOL}@once(key='Nope'){TEXT}",
        f"{STREAMED}{ROUTE}@singleton(scope='Id'){REQUEST.replace('func.HttpRequest', 'Streamed')}",
    ],
    "two functions": [
        f"{FIRST}{QUEUE}@singleton(name='n', scope='Id', on_contention='coalesce'){JOB}",
        f"{FIRST}{QUEUE}@singleton(scope='Id', also=OldLock(name='n'), on_contention='coalesce'){JOB}",
    ],
    "a generator": [
        *(f"{QUEUE}@{guard}{JOB.replace('...', 'yield')}" for guard in ("singleton", "once(key='Id')")),
    ],
    "`@ordered`": [f"{queue}@ordered(Inbox('orders')){JOB}" for queue in (QUEUE, TIMER)],
    "a connection of": [
        *(f"{QUEUE}@singleton({given}){JOB}" for given in ("connection='Nowhere'", "scope_id='%NONE%-{Id}'")),
        *(f"{QUEUE}@once(key={key}){JOB}" for key in ("'%NONE%/{Id}'", "'Id', connection='Wrong'")),
        *(
            f"{QUEUE}@singleton(layout='webjobs', {given}){JOB}"
            for given in ("scope_id='a/..'", "scope_id='{Id}/..'", DOTS)
        ),
        f"{BELLS}@ordered(Inbox('orders', connection='Nowhere')){JOB}",
        f"{BELLS}@ordered(Inbox('orders', connection='Wrong')){JOB}",
        f"{QUEUE}@singleton(also=OldLock(host_id='shop')){JOB}",
    ],
    "these settings": [
        *(f"@app.function_name('off')\n{QUEUE}@{guard}(connection='Nowhere'){JOB}" for guard in ("singleton",)),
        f"@app.function_name('off')\n{QUEUE}@once(key='%NONE%/{{Id}}'){JOB}",
    ],
    "the connection of a lock client": [
        f"locks = LockClient('Nowhere')\n{QUEUE}@locks.lock('total'){JOB}",
    ],
    "a setting of a trigger": [f"{QUEUE.replace('AzureWebJobsStorage', 'Nowhere')}@singleton{JOB}"],
    "what ends well": [
        *(f"{BLOB}@singleton({given}){JOB}" for given in ("on_contention='raise'", "max_waiting=1", "mode='listener'")),
        f"{QUEUE}@singleton(scope_id='{{{{Id}}}}'){JOB}",
    ],
    "the host id of a pod": [f"{QUEUE}@singleton{JOB}", f"{QUEUE}@once(key='Id'){JOB}"],
    "a `scope`": [f"{QUEUE}@singleton(scope='Nope'){JOB}"],
    "what `singleton-sim check` finds": [
        f"async def work(): ...\n{QUEUE}@singleton{JOB.replace('...', 'return work()')}",
        f"def hides(job): return lambda msg: job(msg)\n{QUEUE}@hides\n@singleton(on_contention='defer'){JOB}",
    ],
    "host.json": [f"{QUEUE}@singleton{JOB}"],
    "an argument that": [
        *(
            f"{QUEUE}@{guard}{JOB}"
            for guard in ("singleton(scoop='Id')", "ordered", "ordered(5)", "ordered(Inbox(''))")
        ),
        *(f"{QUEUE}@{guard}\n@staticmethod{JOB}" for guard in ("singleton", "once(key='Id')")),
        f"locks = LockClient('AzureWebJobsStorage', failover=1)\n{QUEUE}@singleton{JOB}",
        f"{QUEUE}@once{JOB}",
        f"{QUEUE}@ordered(Inbox('')){JOB}",
        "@singleton\nclass Job: ...\n",
    ],
    "an account": [f"{QUEUE}@singleton{JOB}"],
}
"""Apps with a mistake, by the begin of the row in docs/reference/errors.md."""
RIGHT = [
    f"{QUEUE}@singleton(scope='Id', on_contention='defer'){JOB}",
    f"{TIMER}@singleton(on_contention='skip'){TICK}",
    f"{ROUTE}@singleton(on_contention='conflict'){REQUEST}",
    f"{ROUTE}@once(key='{{id}}', outputs='first'){REQUEST}",
    f"{RETURNS}{QUEUE}@singleton{JOB}",
    f"{TIMER}@once(key=lambda tick: str(tick.past_due)){TICK}",
    f"{MANY}@singleton(scope_id='all'){JOB}",
    f"{DOCUMENTS[:-2]}, maxItemsPerInvocation=1)\n@singleton(scope='Id'){JOB}",
    f"{QUEUE}{RETURNS}@singleton{JOB.replace('...', 'yield')}",
    f"{QUEUE.replace(chr(39) + 'q', chr(39) + 'orders')}@ordered(Inbox('orders')){JOB}",
    f"{TIMER}@singleton(mode='listener', layout='webjobs', dotnet_name='Contoso.Shop.Orders.Tick'){TICK}",
    f"@app.function_name('pay')\n{QUEUE}@singleton(also=OldLock(name='job')){JOB}",
    f"{QUEUE}@singleton(scope_id='%REGION%'){JOB}",
    f"{FIRST}{QUEUE}@singleton(name='n', scope_id='to {{Id}}', on_contention='coalesce'){JOB}",
    f"@singleton(connection='Unset')\ndef nobody_calls(): ...\n{QUEUE}@singleton{JOB}",
    f"class Other: timer_trigger = lambda **_: {QUEUE[1:]}@Other{TIMER[4:]}@singleton(on_contention='defer'){JOB}",
]
SETTINGS = {
    "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    "Wrong": "AccountName=;AccountKey=x",
    "AzureWebJobs.off.Disabled": "true",
    "REGION": "{Region}",
    "AzureFunctionsWebHost__hostid": "shop",
}
TABLE = (
    (Path(__file__).parents[2] / "docs" / "reference" / "errors.md")
    .read_text("utf-8")
    .partition("| what is wrong |")[2]
)
ROWS = [line.strip("| ").split(" | ") for line in TABLE.partition("\n\n")[0].splitlines()[2:]]
"""The rows: what is wrong, what becomes of the app, and what with ``failFast`` off."""
