"""Write the lines of the pages that install the package: `python -m tools.install`.

A page names what it installs above a block: ``made: install command NAME[EXTRA] …`` is one command of a terminal,
``made: install requirements NAME …`` the lines of a requirements.txt, ``made: install wheel NAME[EXTRA]`` a wheel in
the app's folder, and ``made: install words WHICH`` a sentence that depends on whether an index has them. With
`--check` nothing is written; exit code 1 tells that a page is out of date.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Final

from tools.reference import rewritten

ROOT: Final = Path(__file__).resolve().parent.parent
PUBLISHED: Final = False
"""Whether a package index has both distributions. Until then no line may ask an index for one of their names."""
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY: Final[str] = _PROJECT["urls"]["Repository"]
VERSION: Final[str] = _PROJECT["version"]
ADDRESS: Final = f"git+{REPOSITORY}@main"
"""Stands on the pages for the address of the repository that the reader has."""
FOLDERS: Final = {"azure-functions-singleton": "", "azure-functions-singleton-sim": "#subdirectory=distributions/sim"}
"""Each distribution's folder in the repository."""
_WORDS: Final = {
    "index": (
        f"""\
**They are not on a package index yet.** Neither name is reserved there: a package of that name on an index is not this
one. So install both from the repository. Write the address from which you clone it in the place of
`{REPOSITORY}`, and a tag or a commit in the place of `main`.""",
        "Both are on the package index.",
    ),
    "extras": (
        """\
The extras `check`, `sim` and `dask` of the first name the second by its name only. Don't use them before both are on an
index: pip would ask the index for it.""",
        """\
The extras `check`, `sim` and `dask` of the first bring the second at the same version: `check` without an extra, `sim`
with `hosts`.""",
    ),
    "build": (
        """\
Write the address into `requirements.txt`, with a commit, so that each build installs the same. The build needs git, and
access to the repository.""",
        "Write the name into `requirements.txt`, with the version, so that each build installs the same.",
    ),
    "left": ("4. Both distributions on the package index: [install](install.md).", ""),
}
"""Sentences for a time without the index, and with it."""
_PART: Final = re.compile(
    r"(?P<head><!-- made: install (?P<form>command|requirements|wheel|words) (?P<names>[^\n]*) -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def requirement(name: str, address: str, *, published: bool, pinned: bool = False) -> str:
    """Return the requirement for pip of ``NAME[EXTRA]``; a name that is not ours stays as it is."""
    distribution = name.partition("[")[0]
    if distribution not in FOLDERS:
        return name
    if published:
        return f"{name}{'==' + VERSION if pinned else ''}"
    return f"{name} @ {address}{FOLDERS[distribution]}"


def made(text: str, page: str, *, published: bool = PUBLISHED) -> str:
    """Return a page with its blocks as they are made; ``page`` is the address of docs/install.md from there."""

    def part(found: re.Match[str]) -> str:
        names = found["names"].split()
        match found["form"]:
            case "words":
                said = _WORDS[found["names"]][published]
            case "requirements":
                lines = (requirement(name, ADDRESS, published=published, pinned=True) for name in names)
                said = "\n".join(["```text", *lines, "```"])
            case "wheel":
                said = _wheel(names[0], published=published)
            case _:
                said = _command(names, page, published=published)
        return "\n".join([found["head"], *([said, ""] if said else []), found["end"]])

    return _PART.sub(part, text)


def _command(names: list[str], page: str, *, published: bool) -> str:
    asked = [requirement(name, "$SINGLETON", published=published) for name in names]
    words = [f'"{each}"' if re.search(r"[\[ ]", each) else each for each in asked]
    if published:
        return f"```\npip install {' '.join(words)}\n```"
    lines = " \\\n  ".join(["pip install", *words]) if len(words) > 1 else f"pip install {words[0]}"
    said = f"`SINGLETON` is the address of the repository: [no package index has it yet]({page})."
    return f"```\nexport SINGLETON={ADDRESS}\n{lines}\n```\n\n{said}"


def _wheel(name: str, *, published: bool) -> str:
    """Return how an app gets the wheel into its folder, and the line of its requirements.txt."""
    distribution, _, extras = name.partition("[")
    asked = requirement(distribution, "$SINGLETON", published=published, pinned=True)
    build = f'pip wheel --no-deps --wheel-dir wheels "{asked}"'
    told = build if published else f"export SINGLETON={ADDRESS}\n{build}"
    file = f"./wheels/{distribution.replace('-', '_')}-{VERSION}-py3-none-any.whl[{extras}"
    return f"""\
```
{told}
```

`requirements.txt` names the file, with the extras:

```text
azure-functions
{file}
```"""


def pages() -> list[Path]:
    """Return the pages that install the package."""
    every = [ROOT / "README.md", *ROOT.glob("distributions/*/README.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in every if _PART.search(page.read_text("utf-8"))]


def address(page: Path) -> str:
    """Return the address of docs/install.md on a page."""
    return os.path.relpath(ROOT / "docs" / "install.md", page.parent)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` tell by 1 that one of them is out of date."""
    return max(rewritten(page, partial(made, page=address(page)), arguments) for page in pages())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
