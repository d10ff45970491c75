"""Hashes and partitions, as Java computes them."""

from __future__ import annotations

import pytest

from pyspark_commitlog.classic.errors import InvalidMessageError
from pyspark_commitlog.classic.producer import DefaultPartitioner, Murmur2Partitioner, java_hash

LEAST = "polygenelubricants"  # its hashCode is -2^31, which Java's abs leaves as it is


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # by jshell of Java 17
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Grüße", 69215351),
        ("\U0001f600", 1772899),
        (LEAST, -(2**31)),
        (0, 0),
        (-1, -1),
        (2**31 - 1, 2**31 - 1),
        (2**31, -(2**31)),
        (-(2**40), -256),
        (1.5, 1073217536),
        (True, 1231),
        (b"", 1),
        (b"a", 128),
        (b"\xff\x00", 930),
    ],
)
def test_hashes_are_those_of_java(key: object, hashed: int) -> None:
    assert java_hash(key) == hashed


def test_a_key_that_java_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="tuple has no hash in Java"):
        java_hash(("a", 1))


def test_the_default_partitioner_takes_the_hash_without_its_sign() -> None:
    partitioner = DefaultPartitioner()
    assert [partitioner.partition(key, 7) for key in ("hello", -10, LEAST)] == [99162322 % 7, 3, 0]


def test_todays_partitioner_takes_murmur2_of_the_keys_bytes() -> None:
    partitioner = Murmur2Partitioner()
    hashed: dict[str | bytes, int] = {"21": -973932308, b"foobar": -790332482}  # of Kafka's own UtilsTest
    for key, number in hashed.items():
        assert partitioner.partition(key, 100) == (number & 0x7FFFFFFF) % 100
    with pytest.raises(InvalidMessageError, match="key of type int"):
        partitioner.partition(1, 100)
