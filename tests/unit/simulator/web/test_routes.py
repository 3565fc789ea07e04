"""Routes: which path fits which template, what the parameters are, and which of several templates wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.host.web.routes import Route, RouteError, first_match


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("orders", "orders", {}),
        ("orders", "ORDERS/", {}),
        ("orders", "orders/1", None),
        ("orders", "", None),
        ("", "", {}),
        ("/orders/{id}/", "orders/a%2Fb", {"id": "a/b"}),
        ("orders/{id}", "orders", None),
        ("orders/{Id:int}", "orders/12", {"Id": "12"}),
        ("orders/{id:int}", "orders/12x", None),
        ("orders/{id:int}", "orders/99999999999", None),
        ("orders/{id:long}", "orders/99999999999", {"id": "99999999999"}),
        ("orders/{id:int?}", "orders", {}),
        ("orders/{id:int?}", "orders/x", None),
        ("products/{category:alpha}/{id:int?}", "products/electronics/357", {"category": "electronics", "id": "357"}),
        ("products/{category:alpha}/{id:int?}", "products/12/357", None),
        ("orders/{kind=all}", "orders", {"kind": "all"}),
        ("orders/{kind=all}", "orders/new", {"kind": "new"}),
        ("files/{*path}", "files/a/b/c.txt", {"path": "a/b/c.txt"}),
        ("files/{**path}", "files", {"path": ""}),
        ("{name}.{ext}", "a.b.txt", {"name": "a.b", "ext": "txt"}),
        ("v{version:int}/x", "V7/x", {"version": "7"}),
        ("a/{id:guid}", "a/6ba7b811-9dad-11d1-80b4-00c04fd430c8", {"id": "6ba7b811-9dad-11d1-80b4-00c04fd430c8"}),
        ("a/{id:guid}", "a/6ba7b811", None),
        ("a/{on:bool}", "a/True", {"on": "True"}),
        ("a/{on:bool}", "a/yes", None),
        ("a/{at:datetime}", "a/2026-11-23", {"at": "2026-11-23"}),
        ("a/{n:decimal}", "a/1.5", {"n": "1.5"}),
        ("a/{n:min(3)}", "a/2", None),
        ("a/{n:max(3)}", "a/2", {"n": "2"}),
        ("a/{n:range(1,3)}", "a/4", None),
        ("a/{n:minlength(2):maxlength(3)}", "a/abcd", None),
        ("a/{n:length(2)}", "a/ab", {"n": "ab"}),
        ("a/{n:length(2,3)}", "a/abc", {"n": "abc"}),
        (r"a/{n:regex(^\d{{3}}-x$)}", "a/123-x", {"n": "123-x"}),
        (r"a/{n:regex(^\d{{3}}-x$)}", "a/12-x", None),
        ("{{x}}", "{x}", {}),
    ],
)
def test_a_path_fits_a_template_or_not(template: str, path: str, values: dict[str, str] | None) -> None:
    assert Route.parse(template).match(path) == values


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("a/{id", "a { without a }"),
        ("a/id}", "a } without a {"),
        ("a/{id:even}", "there is no constraint 'even'"),
        ("a/{id:min(x)}", "where numbers must be"),
        ("a/{id}/{ID}", "names a parameter twice"),
        ("a/{*rest}/b", "goes on after a parameter that takes the rest"),
        ("a/{}", "can't be read"),
    ],
)
def test_a_template_that_is_wrong_is_refused(template: str, words: str) -> None:
    with pytest.raises(RouteError) as caught:
        Route.parse(template)
    assert words in str(caught.value)


def routes(*templates: str) -> list[tuple[Route, frozenset[str], str]]:
    return [(Route.parse(template), frozenset(), template) for template in templates]


@pytest.mark.parametrize(
    ("path", "winner"),
    [
        ("orders/new", "orders/new"),
        ("orders/12", "orders/{id:int}"),
        ("orders/abc", "orders/{id}"),
        ("orders/abc/d", "{*rest}"),
    ],
)
def test_text_wins_over_constraints_over_parameters_over_the_rest(path: str, winner: str) -> None:
    known = routes("{*rest}", "orders/{id}", "orders/{id:int}", "orders/new")
    assert (first_match(known, "GET", path) or ("", {}))[0] == winner


def test_only_a_route_that_allows_the_method_serves() -> None:
    known = [
        (Route.parse("orders"), frozenset({"GET"}), "read"),
        (Route.parse("orders"), frozenset({"POST"}), "write"),
    ]
    assert first_match(known, "post", "orders") == ("write", {})
    assert first_match(known, "PUT", "orders") is None


@given(st.text("{}abc:*?=/()", max_size=20), st.text("abc/{}%", max_size=12))
def test_any_text_is_a_route_or_refused_with_one_line(template: str, path: str) -> None:
    try:
        route = Route.parse(template)
    except RouteError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    values = route.match(path)
    assert values is None or set(values) <= {parameter.name for parameter in route.parameters}
