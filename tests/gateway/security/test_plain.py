"""PLAIN: right and wrong passwords, and those that are remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_commitlog.gateway.security import plain as module
from pyspark_commitlog.gateway.security.plain import PlainExchange, RememberedPasswords
from pyspark_commitlog.gateway.security.scram import MESSAGE_BYTES_MAX, Credential, LoginError, made_credential

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Users:
    """Alice, with one password at a time."""

    def __init__(self, *mechanisms: str) -> None:
        self._mechanisms = mechanisms
        self.change("one")

    def change(self, password: str) -> None:
        self._credentials = {each: made_credential(each, password) for each in self._mechanisms}

    def find(self, user: str, mechanism: str) -> Credential:
        own = self._credentials.get(mechanism) if user == "alice" else None
        return own or replace(made_credential(mechanism, "of nobody"), is_decoy=True)


@pytest.fixture(params=[MECHANISMS, MECHANISMS[:1], MECHANISMS[1:]], ids=["both", "256", "512"])
def users(request: pytest.FixtureRequest) -> Users:
    return Users(*request.param)


def logs_in(users: Users, remembered: RememberedPasswords, password: str, user: str = "alice") -> PlainExchange:
    """A login that ended well; the password was checked unless it is remembered."""
    exchange = PlainExchange(users.find, remembered)
    answer = exchange.answer(f"\0{user}\0{password}".encode())
    assert (exchange.check() if answer is None else answer) == b""
    assert exchange.user == user
    return exchange


def test_a_user_with_one_kind_of_credential_logs_in_though_there_are_decoys_for_others() -> None:
    exchange = PlainExchange(Users(MECHANISMS[1]).find, RememberedPasswords())
    assert exchange.answer(b"\0alice\0one") is None
    assert exchange.check() == b""


def test_a_message_that_is_too_long_to_wait_with_many_others_is_refused(users: Users) -> None:
    password = "x" * (MESSAGE_BYTES_MAX - len("\0alice\0"))
    users.change(password)
    logs_in(users, RememberedPasswords(), password)
    users.change(password + "x")
    exchange = PlainExchange(users.find, RememberedPasswords())
    with pytest.raises(LoginError, match="Invalid username or password"):
        exchange.answer(f"\0alice\0{password}x".encode())
    assert exchange.claimed_user == ""


def test_a_right_password_is_hashed_once(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = RememberedPasswords()
    logs_in(users, remembered, "one")
    monkeypatch.setattr(module, "has_password", lambda *_: pytest.fail("hashed again"))
    logs_in(users, remembered, "one")


def test_logins_that_waited_while_another_was_checked_are_not_hashed(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered = RememberedPasswords()
    waiting = PlainExchange(users.find, remembered)
    assert waiting.answer(b"\0alice\0one") is None
    logs_in(users, remembered, "one")
    monkeypatch.setattr(module, "has_password", lambda *_: pytest.fail("hashed again"))
    assert waiting.check() == b""


@pytest.mark.parametrize(("user", "password"), [("alice", "two"), ("bob", "one"), ("alice", "on")])
def test_a_wrong_one_is_refused_whatever_is_remembered(users: Users, user: str, password: str) -> None:
    remembered = RememberedPasswords()
    logs_in(users, remembered, "one")
    with pytest.raises(LoginError, match="Invalid username or password"):
        logs_in(users, remembered, password, user)


def test_a_password_that_was_changed_is_right_no_longer(users: Users) -> None:
    remembered = RememberedPasswords()
    logs_in(users, remembered, "one")
    users.change("two")
    with pytest.raises(LoginError):
        logs_in(users, remembered, "one")
    logs_in(users, remembered, "two")


def test_what_is_remembered_is_not_the_password(users: Users) -> None:
    remembered = RememberedPasswords()
    logs_in(users, remembered, "one")
    assert b"one" not in repr(vars(remembered)).encode()
