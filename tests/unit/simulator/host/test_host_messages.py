"""Names and bodies of queue messages."""

from __future__ import annotations

import pytest

from simulator.host.triggers.queue import decode, encode, is_queue_name
from singleton.defer.trigger_queue import poison_queue


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("orders", True),
        ("orders-1-eu", True),
        ("123", True),
        ("a" * 63, True),
        ("ab", False),
        ("a" * 64, False),
        ("Orders", False),
        ("-orders", False),
        ("orders-", False),
        ("or--ders", False),
        ("or_ders", False),
        ("orders\n", False),
        ("", False),
    ],
)
def test_queue_names_follow_the_services_rules(name: str, allowed: bool) -> None:
    assert is_queue_name(name) is allowed


@pytest.mark.parametrize(
    ("queue", "poison"),
    [("orders", "orders-poison"), ("orders-poison", None), ("a" * 56, "a" * 56 + "-poison"), ("a" * 57, None)],
)
def test_there_is_a_poison_queue_where_its_name_is_allowed(queue: str, poison: str | None) -> None:
    assert poison_queue(queue) == poison


def test_bodies_survive_the_encoding() -> None:
    assert decode(encode(b"\x00\xff", "base64"), "base64") == b"\x00\xff"
    assert decode(encode("é".encode(), "none"), "none") == "é".encode()
    assert decode("YW\nJj", "base64") == b"abc"
    with pytest.raises(ValueError, match="messageEncoding"):
        decode("{}", "base64")
