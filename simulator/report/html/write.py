"""Put a report together: one HTML file with its style, its script and its data, and nothing from anywhere else."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from simulator.report.html.data import packed
from simulator.report.timeline.notes import careful

if TYPE_CHECKING:
    from simulator.report.html.subject import Subject

SCRIPTS: Final = (
    "scale.js",
    "run.js",
    "lanes.js",
    "paint.js",
    "overview.js",
    "chart.js",
    "input.js",
    "tables.js",
    "main.js",
)
"""In this order: each uses only what stands before it."""


def as_page(subject: Subject) -> str:
    """Return the report as one HTML document.

    Its policy for content (CSP) allows exactly this style and this script, and no request at all.
    """
    style, script = _file("page.css"), '"use strict";\n(() => {\n' + "\n".join(map(_file, SCRIPTS)) + "\n})();\n"
    parts = {
        "POLICY": f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'",
        "TITLE": html.escape(careful(f"{subject.headline.text} {subject.title}")),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": packed(subject),
    }
    page = _file("page.html")
    pieces = page.split("@@")  # every second one is a name: what is put in is never looked at again
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _file(name: str) -> str:
    return (files("simulator.report.html") / "page" / name).read_text("utf-8")
