"""The names of users by their certificates."""

from __future__ import annotations

import pytest

from pyspark_commitlog.gateway.security.tls.certificates import principal_of


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("app", "app"),
        ("a,b", r"a\,b"),
        ("a=b", r"a\=b"),
        ("#1 in a+b", r"\#1 in a\+b"),
        ('"a\\b"', r"\"a\\b\""),
        (" a b  ", r"\ a b\ \ "),
        ("  ", r"\ \ "),
        ("a\0b", r"a\00b"),
        ("ä", "ä"),
    ],
)
def test_special_characters_of_a_name_are_escaped_as_by_java(value: str, shown: str) -> None:
    subject = ((("organizationName", "shop"),), (("commonName", value),))
    assert principal_of({"subject": subject}) == f"CN={shown},O=shop"
