"""Who sees the page: names, methods, tokens, and what every answer forbids a browser to do."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from starlette.datastructures import URL
from starlette.requests import Request

from pyspark_commitlog.browse.access import COOKIE, HEADERS, own_path
from pyspark_commitlog.browse.config import BrowseConfig
from pyspark_commitlog.storage import InvalidConfigError, parse_address
from tests.support.browse import Visitor, visiting

TOKEN = "a token of forty characters, as it were.."


@pytest.fixture(scope="module")
def guarded(log_dir: str) -> Iterator[Visitor]:
    with visiting(log_dir, token=TOKEN) as visitor:
        yield visitor


@pytest.mark.parametrize("path", ["/", "/topics/orders/0/records", "/nowhere", "/static/style.css", "/topics/orders/x"])
def test_no_page_lets_a_browser_run_or_load_what_is_not_ours(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS
    assert "unsafe" not in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1"]
)
def test_a_name_that_somebody_else_pointed_here_gets_nothing(visitor: Visitor, host: str) -> None:
    assert visitor.get("/", Host=host).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:80", "[::1]:80"])
def test_the_names_of_this_machine_get_the_page(visitor: Visitor, host: str) -> None:
    assert visitor.get("/", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_answered(visitor: Visitor, method: str) -> None:
    assert visitor.get("/topics/orders", method).status == 405


def test_without_a_token_every_page_leads_to_the_login(guarded: Visitor) -> None:
    answer = guarded.get("/topics/orders?value=hex")
    assert (answer.status, answer.headers["location"]) == (303, "/login?to=%2Ftopics%2Forders%3Fvalue%3Dhex")
    login = guarded.get(answer.headers["location"])
    assert (login.status, "Token" in login.text, "/log" in login.text) == (200, True, False)
    assert guarded.get("/static/style.css").status == 200


def test_only_the_path_that_is_served_decides(guarded: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starlette once made the path of a request's URL from the header Host, too."""
    monkeypatch.setattr(Request, "url", URL("http://x/static/?/topics/orders"))
    answer = guarded.get("/topics/orders", Host="x/static/?")
    assert (answer.status, answer.headers["location"].partition("?")[0]) == (303, "/login")


def test_a_login_leads_back_and_its_cookie_opens_the_pages(guarded: Visitor) -> None:
    form = urlencode({"token": f"{TOKEN}\n", "to": "/topics/orders?value=hex"})
    answer = guarded.get("/login", "POST", form)
    assert (answer.status, answer.headers["location"]) == (303, "/topics/orders?value=hex")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    assert guarded.get("/topics/orders", Cookie=cookie.partition(";")[0]).status == 200
    assert guarded.get("/topics/orders", Authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}])
def test_a_wrong_token_is_refused(guarded: Visitor, headers: dict[str, str]) -> None:
    assert guarded.get("/", **headers).status == 401


@pytest.mark.parametrize("cookie", [f"{COOKIE}=wrong", f"{COOKIE}=", f"{COOKIE}={TOKEN}", '"; ,=', f"{COOKIE}=\xe4"])
def test_a_wrong_cookie_leads_to_the_login(guarded: Visitor, cookie: str) -> None:
    assert guarded.get("/", Cookie=cookie).status == 303


@pytest.mark.parametrize("form", ["token=wrong", "", "token=", "to=/", "\xff=\xff"])
def test_a_wrong_login_gives_no_cookie(guarded: Visitor, form: str) -> None:
    answer = guarded.get("/login", "POST", form)
    assert (answer.status, "set-cookie" in answer.headers) == (303, False)
    assert "The token is wrong." in guarded.get(answer.headers["location"]).text


def test_a_form_has_a_limit(guarded: Visitor) -> None:
    assert guarded.get("/login", "POST", "token=" + "x" * 100_000).status == 413


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example/", "/\\evil.example", "evil", "", "/a\r\nb", "/\t/b"]
)
def test_a_login_leads_to_no_other_site(to: str) -> None:
    assert own_path(to) == "/"


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:80", "log.example.com:80"])
@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "--token-file and --ssl-keystore"),
        ({"token": TOKEN}, "--ssl-keystore"),
        ({"keystore": "k"}, "--token-file"),
    ],
)
def test_other_machines_are_served_with_a_token_and_tls_only(listen: str, given: dict[str, str], missing: str) -> None:
    with pytest.raises(InvalidConfigError, match=f"give {missing} too"):
        BrowseConfig("log", parse_address("--listen", listen), **given)
    assert BrowseConfig("log", parse_address("--listen", listen), token=TOKEN, keystore="k").token == TOKEN


def test_a_token_that_can_be_guessed_is_refused_and_none_is_shown() -> None:
    with pytest.raises(InvalidConfigError, match="at least 16"):
        BrowseConfig("log", token="secret")
    assert TOKEN not in repr(BrowseConfig("log", token=TOKEN))
