"""Azurite is installed once, by real npm, however many runs begin with it; here from a registry that takes its time."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
from typing import TYPE_CHECKING

import pytest

from simulator.azurite import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = """
import runpy, sys
from pathlib import Path
from simulator.azurite import install
install.HERE = Path(sys.argv[1])
runpy.run_module("simulator.azurite", run_name="__main__")
"""
FILES = {
    "package/package.json": json.dumps({"name": "azurite", "version": "9.9.9"}),
    "package/dist/src/azurite.js": "",
}


def packed() -> bytes:
    """Return a package of the name and the one file that the installation looks for."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in FILES.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@contextlib.contextmanager
def registry(content: bytes, hand_out: threading.Event) -> Iterator[str]:
    """Serve one package, once it may; yield its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hand_out.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/azurite.tgz"
        finally:
            hand_out.set()
            server.shutdown()
            thread.join()


def lock_file(folder: Path, address: str, content: bytes) -> None:
    folder.mkdir()
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
    root = {"name": "a-simulator", "version": "1.0.0", "dependencies": {"azurite": "9.9.9"}}
    package = {"version": "9.9.9", "resolved": address, "integrity": integrity}
    lock = {**root, "lockfileVersion": 3, "packages": {"": root, "node_modules/azurite": package}}
    (folder / "package.json").write_text(json.dumps(root))
    (folder / "package-lock.json").write_text(json.dumps(lock))
    shutil.copy(install.HERE / "watch_parent.cjs", folder)


@pytest.mark.process
def test_two_runs_that_start_together_install_once_and_clear_up_after_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, cache, content, hand_out = tmp_path / "source", tmp_path / "cache", packed(), threading.Event()
    monkeypatch.setenv("SINGLETON_SIM_CACHE", str(cache))
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    with registry(content, hand_out) as address:
        lock_file(source, address, content)
        monkeypatch.setattr(install, "HERE", source)
        name = install.installation().name
        (cache / name / "node_modules").mkdir(parents=True)
        (cache / f"{name}.new-1234").mkdir()
        command = [sys.executable, "-c", RUN, str(source)]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        first = [next(iter(run.stdout or ())) for run in runs]
        hand_out.set()
        outputs = [[line, *run.communicate()[0].splitlines()] for line, run in zip(first, runs, strict=True)]
    assert [run.returncode for run in runs] == [0, 0]
    installed, waited = sorted(outputs, key=lambda lines: "Waiting" in lines[0])
    assert all(line.startswith("Installing Azurite 9.9.9 (once): ") for line in installed)
    assert "1 of 1 packages" in installed[-1]
    assert all(line.startswith("Waiting for another run that installs Azurite: ") for line in waited)
    assert sorted(file.name for file in cache.iterdir()) == [name, f"{name}.lock"]
