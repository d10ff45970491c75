"""Parses dates and times as Spark does (``SparkDateTimeUtils``), also in years that Python's datetime lacks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIME = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_OFFSET_S_MAX = 18 * 3600
_DAY_S = 86_400
_CYCLE_S = 146_097 * _DAY_S  # 400 years, after which weekdays fall on the same dates again
_EPOCH = datetime(1970, 1, 1)
_FIRST_S, _LAST_S = ((each - _EPOCH) // timedelta(seconds=1) for each in (datetime.min, datetime.max))
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Java's ZoneId.SHORT_IDS.
_SHORT_IDS = {
    **{"ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires"},
    **{"ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka"},
    **{"CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai"},
    **{"EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis"},
    **{"IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan"},
    **{"NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico"},
    **{"PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh"},
    **{"EST": "-05:00", "MST": "-07:00", "HST": "-10:00"},
}


def days_of(text: str) -> int:
    """Returns the days since 1970-01-01 of ``[+-]yyyy[-[m]m[-[d]d]]``; the year may have up to seven digits.

    A day may be followed by a blank or T, and then by any text. Raises ValueError.
    """
    found = _DATE.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise ValueError(f"{text!r:.100} is not a date")
    sign, year, month, day = found.groups()
    return _days(int(sign + year), int(month or 1), int(day or 1))


def nanoseconds_of(text: str, zone: tzinfo | None) -> int:
    """Returns the nanoseconds since 1970 of ``date[( |T)[h]h[:[m]m[:[s]s[.fraction][zone]]]]``.

    Drops digits of the fraction beyond nine. ``zone`` is the time zone of text that names none. If ``zone`` is None,
    the text must not name one, and the result counts from 1970 in local time. Raises ValueError.
    """
    found = _TIME.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise ValueError(f"{text!r:.100} is not a time")
    sign, year, month, day, hour, minute, second, fraction, zone_id = found.groups()
    date = (int(sign + year), int(month or 1), int(day or 1))
    clock = tuple(int(each or 0) for each in (hour, minute, second))
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        raise ValueError(f"{text!r:.100} is not a time of day")
    seconds = _days(*date) * _DAY_S + clock[0] * 3600 + clock[1] * 60 + clock[2]
    if zone is None and zone_id is not None:
        raise ValueError(f"{text!r:.100} has a time zone, but the column has none")
    if zone is not None:
        seconds -= _offset_s(zone if zone_id is None else zone_of(zone_id.strip(_BLANKS)), seconds)
    return seconds * 10**9 + int((fraction or "")[:9].ljust(9, "0"))


@lru_cache(maxsize=1000)
def zone_of(name: str) -> tzinfo:
    """Returns a zone by its name in Java: ``Z``, ``+01:00``, ``Europe/Paris``, ``PST``. Raises ValueError."""
    name = re.sub(r"([+-])([0-9]):", r"\g<1>0\2:", name)
    name = re.sub(r"([+-][0-9]{2}):([0-9])$", r"\1:0\2", name)
    name = _SHORT_IDS.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    found = _OFFSET.fullmatch(name)
    if found is None:
        return _region(name)
    hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    offset_s = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset_s > _OFFSET_S_MAX:
        raise ValueError(f"{name!r:.100} is not an offset of a time zone")
    return timezone(timedelta(seconds=-offset_s if found[1] == "-" else offset_s))


def _region(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # a folder such as "Europe" is an OSError, a path a ValueError
        raise ValueError(f"{name!r:.100} is not a time zone") from None


def _offset_s(zone: tzinfo, local_s: int) -> int:
    """Returns the zone's offset from UTC, in seconds, at a local time, given in seconds since 1970.

    As in Java: in a gap the offset before the gap, in an overlap the earlier of the two offsets.
    """
    moment = None  # a fixed offset is the same at any time
    if not isinstance(zone, timezone):
        late, early = max(0, local_s - _LAST_S), max(0, _FIRST_S - local_s)
        cycles = -(-late // _CYCLE_S) + early // -_CYCLE_S
        moment = _EPOCH + timedelta(seconds=local_s - cycles * _CYCLE_S)
    offset = zone.utcoffset(moment)
    assert offset is not None
    return round(offset.total_seconds())


def _days(year: int, month: int, day: int) -> int:
    """Returns the days since 1970-01-01 in the proleptic Gregorian calendar. Raises ValueError for an invalid date."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS_IN_MONTH[month - 1] or (month == 2 and day == 29 and not is_leap):
        raise ValueError(f"{year}-{month}-{day} is not a date")
    march = year - (month <= 2)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return march * 365 + march // 4 - march // 100 + march // 400 + day_of_year - 719_468
