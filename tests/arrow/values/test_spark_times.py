"""Zones and dates in text, for those that Python knows too; test_values_beside_spark.py compares them with Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from pyspark_commitlog.arrow.values.spark_times import days_of, nanoseconds_of, zone_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_days_agree_with_python(day: date) -> None:
    assert days_of(day.isoformat()) == day.toordinal() - date(1970, 1, 1).toordinal()


@given(st.datetimes(), st.sampled_from(["Europe/Paris", "America/New_York", "UTC", "+05:30", "-18:00"]))
def test_times_in_a_zone_agree_with_python(moment: datetime, zone: str) -> None:
    right = (moment.replace(tzinfo=zone_of(zone)) - EPOCH) // timedelta(microseconds=1) * 1000
    assert nanoseconds_of(f"{moment.isoformat()} {zone}", UTC) == right
    assert nanoseconds_of(moment.isoformat(), zone_of(zone)) == right


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)), st.sampled_from(["Europe/Paris", "America/New_York"]))
def test_zone_keeps_its_rules_beyond_pythons_years(moment: datetime, zone: str) -> None:
    """400 years are a whole number of weeks."""
    rules = ZoneInfo(zone)
    near, far = moment.replace(year=9600 + moment.year % 400 if moment.month != 2 else 9600), 146_097 * 86_400 * 10**9
    text = f"{near.year + 400}{near.isoformat()[4:]}"
    assert nanoseconds_of(text, rules) == nanoseconds_of(near.isoformat(), rules) + far


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("Z", 0),
        ("+1", 60),
        ("-01:30", -90),
        ("+0130", 90),
        ("UTC+2", 120),
        ("GMT-0030", -30),
        ("EST", -300),
        ("+1:5", 65),
    ],
)
def test_offset_by_its_names_in_java(name: str, minutes: int) -> None:
    assert zone_of(name) == timezone(timedelta(minutes=minutes))


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "Europe", "../etc/passwd", "+19", "+18:01", "+01:60", "utc", "+1:00:0", "é"]
)
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        zone_of(name)
