"""Locks whose names are wrong: they exclude nobody, or those whom they should not."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from singleton.functions import payload
from singleton.layouts import blob_name
from singleton.layouts.layout import Layout
from singleton.runtime import address
from singleton.scopes import template
from tests.broken.breaking import Now, around, broken, names, this_host

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


@broken("one name", app="texts", options="--duration 8")
def names_of_texts_are_their_valid_parts(patch: Patch) -> None:
    around(patch, blob_name, "safe_name", lambda real: lambda text: real(text).partition("~")[0])


@broken("had several scopes")
def names_have_no_upper_case(patch: Patch) -> None:
    names(patch, str.lower)


@broken("had several scopes")
def scopes_are_cut(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def lock(self: Any, host_id: str, function: str, scopes: Any, *args: Any, **more: Any) -> str:
            return str(real(self, host_id, function, [scope[:5] for scope in scopes], *args, **more))

        return lock

    around(patch, Layout, "lock", made)


@broken("had several locks", app="nested")
def functions_share_no_lock(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def lock(self: Any, host_id: str, function: str, *args: Any, **more: Any) -> str:
            return f"{real(self, host_id, function, *args, **more)}.{function}"

        return lock

    around(patch, Layout, "lock", made)


@broken("overlap")
def each_host_has_a_container_of_its_own(patch: Patch) -> None:
    def made(real: Any) -> Any:
        def maker(*args: Any) -> Any:
            make = real(*args)
            return lambda place, name: make(replace(place, container=f"{place.container}-{this_host()}"), name)

        return maker

    around(patch, address, "address_maker", made)


@broken("overlap")
def nothing_is_locked_in_the_first_eight_seconds(patch: Patch) -> None:
    began = time.monotonic()
    names(patch, lambda name: f"{name}.{this_host()}" if time.monotonic() - began < 8 else name)


@broken("has the value that @singleton names", app="payloads")
def nested_names_depend_on_their_case(patch: Patch) -> None:
    def made(real: Any) -> Any:
        return lambda found, name, subject: real({name: found[name]} if name in found else {}, name, subject)

    around(patch, template, "_property", made)


@broken("ran though their messages name no scope", app="payloads")
def several_documents_have_the_lock_of_the_first(patch: Patch) -> None:
    patch.setattr(payload, "_the_only_one", lambda _, batch: batch[0])
