from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.text import counted, masked, parse_duration_ms, parse_instant, parse_names, parse_pairs

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14 23:13:20.500+01:00", 1_700_000_000_500),
        ("2023-11-14", 1_699_920_000_000),
        ("20231114", 1_699_920_000_000),
        (" +1700000000000 ", 1_700_000_000_000),
        ("2023-11-14T22:13:20.000001Z", 1_700_000_000_001),  # the first record that is not older
        ("1969-12-31T23:59:59.9985", -1),
    ],
)
def test_a_time_is_iso_8601_in_utc_or_milliseconds(text: str, expected_ms: int) -> None:
    assert parse_instant(text) == expected_ms


@pytest.mark.parametrize("text", ["monday", "", "1700000000", "99999999999"])
def test_a_value_that_is_no_time_or_is_in_seconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither ISO 8601"):
        parse_instant(text)


def test_any_number_is_milliseconds_where_kafka_takes_them() -> None:
    assert [parse_instant(text, least_ms=0) for text in ("0", "20231114", "2023-11-14")] == [0, 20231114, 1699920000000]
    for text in ("-1", str(2**63), "٣"):
        with pytest.raises(ValueError, match="nor milliseconds since 1970"):
            parse_instant(text, least_ms=0)


def test_a_repeatable_argument_may_contain_commas() -> None:
    assert parse_names("--topics", ["a, b", "c.*", ""]) == ["a", "b", "c.*"]


def test_an_option_without_a_name_is_refused_as_ambiguous() -> None:
    assert parse_names("--topics", []) == []
    with pytest.raises(InvalidConfigError, match="--keep-for-groups is empty"):
        parse_names("--keep-for-groups", [""])


def test_the_last_of_a_key_counts_and_its_value_may_hold_equals_signs() -> None:
    assert parse_pairs("--config", ["a=1", " b = x=y ", "a=2"]) == {"a": "2", "b": "x=y"}
    with pytest.raises(InvalidConfigError, match="--config 'a': expected key=value"):
        parse_pairs("--config", ["a"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--client sasl.plain.password:topsecret", "--client sasl.plain.password:***"),
        ("--client SSL_PASSWORD = topsecret --topics a", "--client SSL_PASSWORD = *** --topics a"),
        ('sasl.jaas.config=org.Plain required username="u" password="topsecret";', "sasl.jaas.config=***"),
        ("basic.auth.credentials.source topsecret", "basic.auth.credentials.source ***"),
        ("ssl.keystore.key=topsecret\nretention.ms=5", "ssl.keystore.key=***\nretention.ms=5"),
        ("--registry http://u:topsecret@h:1/x", "--registry http://***@h:1/x"),
        ("the token --topics is empty", "the token --topics is empty"),
        ("retention.ms", "retention.ms"),
    ],
)
def test_secrets_are_masked_and_nothing_else(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_malformed_pair_is_reported_without_its_secret() -> None:
    with pytest.raises(InvalidConfigError, match=r"--client 'ssl\.password \*\*\*': expected key=value"):
        parse_pairs("--client", ["ssl.password topsecret"])


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("5 minutes", 300_000),
        ("1 minute", 60_000),
        ("1 hour 30 minutes", 5_400_000),
        ("10seconds", 10_000),
        ("250 milliseconds", 250),
        (" 7  Days ", 604_800_000),
        ("2 weeks", 1_209_600_000),
    ],
)
def test_durations_are_those_of_sparks_triggers(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "5", "minutes", "5 min utes", "5 minutes ago", "-5 minutes", "1.5 hours", "0 seconds"]
)
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer than 0"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("amount", "noun", "text"),
    [
        (1, "segment", "1 segment"),
        (0, "segment", "0 segments"),
        (1234, "sound byte", "1,234 sound bytes"),
        (1, "batch", "1 batch"),
        (2, "damaged batch", "2 damaged batches"),
    ],
)
def test_amounts_agree_with_their_nouns(amount: int, noun: str, text: str) -> None:
    assert counted(amount, noun) == text


def test_reports_count_with_nouns_that_agree() -> None:
    """Looks at the text of commands and of the reports that they print."""
    nouns = "segment|file|partition|record|row|batche|topic|backup|piece|object|transaction|group"
    wrong = re.compile(rf"{{(?![A-Z_]+:)[^{{}}]+:,}} (?:{nouns})s\b")
    rooms = ("cli", "jobs", "storage/maintenance", "storage/retention", "storage/erasure", "storage/tiering")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    assert files
    assert [f"{path}: {found}" for path in files for found in wrong.findall(path.read_text())] == []
