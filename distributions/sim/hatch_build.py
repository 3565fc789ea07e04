"""Add the files that lie elsewhere in the repository: the package, and the sample app at the root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SAMPLE = ("function_app.py", "host.json", "local.settings.example.json")


class RepositoryHook(BuildHookInterface):  # type: ignore[type-arg]  # of a configuration that it does not use
    """Gives the sdist and the wheel the same files under the same names."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the repository's files, unless this is an sdist, which has them, or an editable install."""
        root = Path(self.root)
        repository = root.parents[1]
        if version == "editable" or (root / "simulator").is_dir():
            return
        build_data["force_include"] |= {
            str(repository / "simulator"): "simulator",
            **{str(repository / name): f"simulator/sample/{name}" for name in SAMPLE},
        }
