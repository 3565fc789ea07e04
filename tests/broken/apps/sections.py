"""Locks of lock clients in functions: blocks, one try, a semaphore, a decorator, holds without a block, workers."""

import asyncio
import threading
import time

import azure.functions as func

from singleton import AsyncLockClient, LockClient, PeriodicWorker, SingletonOptions, singleton

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage", options=SingletonOptions(lock_acquisition_polling_interval=0.5))
slow = LockClient("AzureWebJobsStorage", options=SingletonOptions(listener_lock_recovery_polling_interval=15))
begun = threading.Lock()
workers: list[PeriodicWorker] = []


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def reserve(msg: func.QueueMessage) -> None:
    begin()
    with locks.lock(f"stock/{msg.get_json()['Id']}", reentrant=True) as hold:
        time.sleep(0.05)
        with locks.lock(f"stock/{msg.get_json()['Id']}", reentrant=True):
            time.sleep(0.05)
        hold.raise_if_lost()


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
async def bill(msg: func.QueueMessage) -> None:
    client = AsyncLockClient("AzureWebJobsStorage", options=SingletonOptions(lock_acquisition_polling_interval=0.5))
    async with client, client.semaphore("printers", 2), client.lock_all(["bills", "ledger"], timeout=30):
        await asyncio.sleep(0.1)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
def mail(msg: func.QueueMessage) -> None:
    hold = locks.acquire("mails")
    try:
        locks.locked("mails")
        time.sleep(0.1)
    finally:
        locks.release(hold)
    with locks.try_lock("digest") as got:
        if got is not None:
            time.sleep(0.2)
    count()


@locks.lock("numbers")
def count() -> None:
    time.sleep(0.05)


def begin() -> None:
    with begun:
        if not workers:
            workers.append(locks.periodic("cleanup", clean_up, every=1))
            workers[0].start()
            threading.Thread(target=lead, daemon=True).start()
            threading.Thread(target=watch, daemon=True).start()


def clean_up(hold: object) -> None:
    time.sleep(0.3 if int(time.monotonic()) % 3 else 2.5)
    raise OSError("there is nothing to clean up")


def watch() -> None:
    with slow.leadership("watcher") as leadership:
        while leadership.hold is None or not leadership.hold.lost.is_set():
            time.sleep(0.5)


def lead() -> None:
    with slow.leadership("poller") as leadership:
        while hold := leadership.wait():
            while not hold.lost.wait(1):
                assert leadership.hold is not None or hold.lost.is_set()


@app.timer_trigger(arg_name="timer", schedule="*/2 * * * * *")
@singleton(on_contention="skip")
def look(timer: func.TimerRequest) -> None:
    with locks.lock("long"):
        time.sleep(9)
