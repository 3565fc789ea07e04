"""The path of a blob trigger: which blobs fit it, and the values of its ``{names}``."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"\{([^{}]*)\}")


def path_names(pattern: str, path: str) -> dict[str, str]:
    """Return the values of a blob trigger's ``{names}`` for the path of a blob."""
    found = _match(pattern, path)
    return {} if found is None else dict(zip(_NAME.findall(pattern), found.groups(), strict=True))


def path_fits(pattern: str, path: str) -> bool:
    """Tell whether a blob with this path triggers the function; a pattern may be a container alone."""
    return path.startswith(f"{pattern}/") if "/" not in pattern else _match(pattern, path) is not None


def made_path(pattern: str, number: int) -> str:
    """Return a path that fits."""
    return _NAME.sub(f"blob-{number}", pattern if "/" in pattern else f"{pattern}/{{name}}")


def _match(pattern: str, path: str) -> re.Match[str] | None:
    pieces = _NAME.split(pattern)[::2]
    container = pattern.partition("/")[0]
    matcher = re.escape(pieces[0])
    for at, piece in enumerate(pieces[1:]):
        in_container = len("".join(pieces[: at + 1])) < len(container)
        matcher += ("([^/]*)" if in_container else "(.*)") + re.escape(piece)
    return re.fullmatch(matcher, path, re.DOTALL)
