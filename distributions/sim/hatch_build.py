"""Add what lies elsewhere in the repository: the package, the sample app, the version and the addresses."""

from __future__ import annotations

import runpy
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

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


class VersionHook(MetadataHookInterface):
    """Gives this distribution the version of the lock, and requires the lock at this version. An sdist has all."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read the version at the root of the repository, and make the README as there."""
        repository = Path(self.root).parents[1]
        lock = tomllib.loads((repository / "pyproject.toml").read_text("utf-8"))["project"]
        runpy.run_path(str(repository / "hatch_build.py"))["shown"](metadata, Path(self.root), repository)
        metadata["version"] = lock["version"]
        metadata["dependencies"] = [f"{lock['name']}=={lock['version']}", *self.config["dependencies"]]
