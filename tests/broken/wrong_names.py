"""Locks whose names are wrong: they exclude nobody, or those whom they should not."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

from tests.broken.breaking import Now, broken, names, this_host

if TYPE_CHECKING:
    from tests.broken.breaking import Patch


@broken("had several locks", "mutex")
def each_host_has_locks_of_its_own(patch: Patch) -> None:
    names(patch, lambda name: f"{name}.{this_host()}")


@broken("overlap", "mutex")
def locks_of_one_host_exclude_its_own_bodies_only(patch: Patch) -> None:
    each_host_has_locks_of_its_own(patch)


@broken("had several locks", "keys")
def each_invocation_has_a_lock_of_its_own(patch: Patch) -> None:
    numbers = count()
    names(patch, lambda name: f"{name}.{this_host()}.{next(numbers)}")


@broken("had several locks")
def a_lock_has_another_name_every_seven_seconds(patch: Patch) -> None:
    names(patch, lambda name: f"{name}.{int(time.time() / 7)}")


@broken("had several locks", "keys")
def one_name_in_ten_is_wrong(patch: Patch) -> None:
    now = Now(10)
    names(patch, lambda name: f"{name}.x" if now() else name)


@broken("had several scopes", "keys")
def all_keys_have_one_lock(patch: Patch) -> None:
    names(patch, lambda name: name.rpartition(".")[0] or name[:-1])


@broken("had several scopes", app="cases")
def names_have_no_upper_case(patch: Patch) -> None:
    names(patch, str.lower)
