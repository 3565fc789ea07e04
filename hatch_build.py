"""What an index shows of a distribution: its README with whole addresses, and the addresses of the project."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r'(?P<before>\]\(|\b(?:src|srcset)=")(?!\w+:|#)(?P<path>[^)"\s]+)')


def shown(metadata: dict[str, Any], folder: Path, repository: Path) -> None:
    """Add the README of a folder, and the addresses, which are those of the ``pyproject.toml`` at the root."""
    project = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
    within, urls = folder.relative_to(repository).as_posix(), project["urls"]

    def whole(found: re.Match[str]) -> str:
        kind = "blob" if found["before"] == "](" else "raw"
        path = posixpath.normpath(posixpath.join(within, found["path"]))
        return f"{found['before']}{urls['Repository']}/{kind}/v{project['version']}/{path}"

    text = _LINK.sub(whole, (folder / "README.md").read_text("utf-8"))
    metadata["readme"] = {"content-type": "text/markdown", "text": text}
    metadata["urls"] = urls


class ReadmeHook(MetadataHookInterface):
    """Adds the README of the repository. An sdist has what was made of it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read the README beside this file."""
        shown(metadata, Path(self.root), Path(self.root))
