"""SCRAM: the examples of the RFCs, and clients that do not know the password."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from pyspark_commitlog.gateway.security import scram
from pyspark_commitlog.gateway.security.decoys import Decoys
from pyspark_commitlog.gateway.security.scram import Credential, LoginError, ScramExchange, has_password

SHA_256 = "SCRAM-SHA-256"


def exchange_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> ScramExchange:
    """The server of section 3 of RFC 7677: user ``user`` with password ``pencil``."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = Credential(salt, 4096, *scram._keys(SHA_256, "pencil", salt, 4096))
    monkeypatch.setattr(scram.secrets, "token_urlsafe", lambda _: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    decoys = Decoys(b"secret", {})
    return ScramExchange(
        SHA_256,
        lambda user, mechanism: (
            credential if (user, mechanism) == ("user", SHA_256) else decoys.credential(user, mechanism)
        ),
    )


FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def test_the_example_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = exchange_of_rfc_7677(monkeypatch)
    answer = exchange.answer(FIRST)
    assert answer == (b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert exchange.user is None
    assert exchange.answer(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"p=dHz", b"p=dHy"),
        FINAL.replace(b"c=biws", b"c=eSws"),  # another binding than in the first message
        FINAL.replace(b"NEkqO%", b"NEkqO+"),  # another nonce
        FINAL[: FINAL.index(b",p=")],
        FINAL[: FINAL.index(b",p=")] + b",p=",
        FINAL[: FINAL.index(b",p=")] + b",p=dHzb",  # a part of the right proof
        FIRST,
        b"",
        b"\xff",
    ],
)
def test_a_wrong_final_message_is_refused_with_kafkas_words(monkeypatch: pytest.MonkeyPatch, final: bytes) -> None:
    exchange = exchange_of_rfc_7677(monkeypatch)
    exchange.answer(FIRST)
    with pytest.raises(LoginError, match=r"due to invalid credentials with SASL mechanism SCRAM-SHA-256$"):
        exchange.answer(final)
    assert exchange.user is None


@pytest.mark.parametrize("first", [b"p=tls-unique,,n=user,r=abc", b"n,,r=abc", b"n,,n=user,r=", b"", b"\0\xff", FINAL])
def test_a_wrong_first_message_is_refused_with_kafkas_words(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    with pytest.raises(LoginError, match=r"due to invalid credentials with SASL mechanism SCRAM-SHA-256$"):
        exchange_of_rfc_7677(monkeypatch).answer(first)


def test_a_message_that_is_too_long_to_be_kept_for_many_clients_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = b"n,,n=%s,r=abc" % (b"x" * (scram.MESSAGE_BYTES_MAX - len(b"n,,n=,r=abc")))
    assert exchange_of_rfc_7677(monkeypatch).answer(longest)
    exchange = exchange_of_rfc_7677(monkeypatch)
    with pytest.raises(LoginError, match=r"due to invalid credentials with SASL mechanism SCRAM-SHA-256$"):
        exchange.answer(longest + b"d")
    assert exchange.claimed_user == ""


def test_nobody_logs_in_as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LoginError, match="an authorization id that is different from username"):
        exchange_of_rfc_7677(monkeypatch).answer(b"n,a=root,n=user,r=abc")


def test_a_replayed_proof_is_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange_of_rfc_7677(monkeypatch)
    monkeypatch.undo()
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = Credential(salt, 4096, *scram._keys(SHA_256, "pencil", salt, 4096))
    exchange = ScramExchange(SHA_256, lambda user, mechanism: credential)
    exchange.answer(FIRST)
    with pytest.raises(LoginError):
        exchange.answer(FINAL)


def test_names_with_commas_and_equal_signs_are_escaped() -> None:
    asked: list[str] = []

    def find(user: str, mechanism: str) -> Credential:
        asked.append(user)
        return Decoys(b"secret", {}).credential(user, mechanism)

    ScramExchange(SHA_256, find).answer(b"n,,n=a=2Cb=3D2C,r=abc")
    assert asked == ["a,b=2C"]


def test_a_user_that_does_not_exist_is_refused_as_late_as_one_with_another_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange = exchange_of_rfc_7677(monkeypatch)
    answer = exchange.answer(FIRST.replace(b"n=user", b"n=nobody")).decode()
    assert answer.startswith("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=")
    assert answer.endswith(",i=4096")
    with pytest.raises(LoginError, match=r"due to invalid credentials with SASL mechanism SCRAM-SHA-256$"):
        exchange.answer(FINAL)


@pytest.mark.parametrize("mechanism", sorted(scram.HASHES))
def test_what_is_stored_is_salted_and_is_not_the_password(mechanism: str) -> None:
    one, other = scram.made_credential(mechanism, "pencil"), scram.made_credential(mechanism, "pencil")
    assert one.salt != other.salt
    assert one.stored_key != other.stored_key
    assert has_password(mechanism, one, "pencil")
    assert not has_password(mechanism, one, "pencils")
    name = scram.HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, b"pencil", one.salt, one.iterations)
    assert one.stored_key == hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    assert one.stored_key.hex() not in repr(one)
    assert "stored_key" not in repr(one)
