"""Which blob is the lock of a function, for who is not that function: the app's id and the container's layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from singleton.layouts.layout import Layout
from singleton.layouts.webjobs import CONTAINER as WEBJOBS
from singleton.layouts.webjobs import WebJobsLayout
from singleton.settings.hostid import host_id
from singleton.settings.options import find_app_dir, load_options

if TYPE_CHECKING:
    from singleton.settings.options import SingletonOptions


def app_id(options: SingletonOptions) -> str:
    """Return the host id under which the app has its locks: the option, else what the host would work out here."""
    if options.host_id is not None:
        return options.host_id
    app_dir = find_app_dir(Path.cwd(), os.environ)
    return load_options(app_dir, os.environ).host_id or host_id(os.environ, app_dir)


def layout_in(container: str) -> Layout:
    """Return the layout by which functions' locks are named in this container."""
    return WebJobsLayout() if container == WEBJOBS else Layout()
