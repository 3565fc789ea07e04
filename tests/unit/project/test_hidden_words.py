"""No text of ours has a form that the Functions host takes for a secret: it would hide what follows in an error."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from singleton import ConfigurationError, Holder, Inbox, LockNotAcquired, singleton
from singleton.functions.body_result import refuse_unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[3] / "singleton"
HIDDEN: Final = re.compile(
    r"(key|token|sig|pwd|password|secret|credential|code|data source|server)\s*=|defaultendpointsprotocol=http"
    r"|://[^:\s\"'/]+:[^@\s\"'/]+@",
    re.IGNORECASE,
)
"""As the host's sanitizer has them, in any case: names of secrets, and a URL with a password; and ``credential=``."""
NO_MESSAGES: Final = {
    "sig=": "part of a signed address that is looked for",
    r"""(?i)(\bsig=)[^&;\s\"']+""": "hides signatures in messages",
    "AccountName={};AccountKey={}": "the connection string of the emulator",
}


def texts(source: str) -> Iterator[str]:
    """Yield the texts of a module, but for docstrings and patterns; what an f-string fills in is missing."""
    tree = ast.parse(source)
    skipped = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and ast.unparse(each.func).startswith("re."):
            skipped |= {id(part) for part in ast.walk(each)}
        if isinstance(each, ast.JoinedStr):
            skipped |= {id(part) for part in each.values}
    for each in ast.walk(tree):
        if id(each) in skipped:
            continue
        if isinstance(each, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_no_message_has_a_form_that_the_host_hides() -> None:
    found = {
        text: file.relative_to(ROOT).as_posix()
        for file in ROOT.rglob("*.py")
        for text in texts(file.read_text(encoding="utf-8"))
        if HIDDEN.search(text)
    }
    assert {text: where for text, where in found.items() if text not in NO_MESSAGES} == {}
    assert found.keys() == NO_MESSAGES.keys(), "an exception that nothing needs any more"


def test_no_error_of_pythons_own_repeats_a_users_text_unless_it_is_quoted() -> None:
    """``SingletonError`` shows its text; another error has the text that it is given."""
    told = {
        f"{file.relative_to(ROOT).as_posix()}: {ast.unparse(error)}"
        for file in ROOT.rglob("*.py")
        if file.relative_to(ROOT).parts[0] not in ("cli", "testing")
        for error in errors_of_python(ast.parse(file.read_text(encoding="utf-8")))
        if any(isinstance(each, ast.FormattedValue) and each.conversion == ord("r") for each in ast.walk(error))
    }
    assert told == set()


def errors_of_python(tree: ast.AST) -> Iterator[ast.Call]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call):
            name = ast.unparse(each.exc.func)
            if hasattr(builtins, name) and name not in ("AssertionError", "AttributeError"):
                yield each.exc


def print_nothing() -> None: ...


def test_a_users_own_value_is_quoted_in_a_form_that_the_host_shows() -> None:
    with pytest.raises(ConfigurationError, match=r"key\\x3d") as caught:
        singleton(scope_id="key={Id")(print_nothing)
    assert HIDDEN.search(str(caught.value)) is None
    account = "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=" + 88 * "x"
    for secret in (account, "https://me:xxx@shop", f"https://shop?sig={44 * 'x'}"):
        with pytest.raises(ConfigurationError) as caught:
            Inbox(secret)
        assert "xxx" not in str(caught.value)
        assert str(caught.value).endswith("single dashes")
        assert HIDDEN.search(str(caught.value)) is None
    holder = Holder(lock="a", owner="pwd=1", host="vm-1", pid=7)
    with pytest.raises(RuntimeError, match=r"exit\('key\\x3d5'\)"):
        refuse_unanswered("ship", SystemExit("key=5"), is_async=False)
    refused = str(LockNotAcquired("the lock is held", holder=holder))
    assert r"pwd\x3d1" in refused
    assert HIDDEN.search(refused) is None


def test_the_search_sees_what_is_said_and_not_what_is_explained() -> None:
    source = "def f(k):\n    'key=doc'\n    raise E(f'token={k}', 'key = ' 'x', re.compile('sig='))\n"
    assert sorted(texts(source)) == ["key = x", "token={}"]
