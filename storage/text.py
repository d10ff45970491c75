"""Parses command-line values for commands and jobs, and hides secrets in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from .errors import InvalidConfigError

_SECRET = r"password|passwd|secret|token|credential|jaas|authorization|private[._-]?key|keystore[._-]key|api[._-]?key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_SECRET_PAIR = re.compile(rf"([\w.-]*(?:{_SECRET})[\w.-]*(?:\s*[=:]\s*|\s+))(?!--).*?(?=\s--|$)", re.IGNORECASE | re.M)
_USER_INFO = re.compile(r"://[^\s/]*@")

# Control characters, line ends, characters that change the text direction, and surrogates.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_UNITS_MS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_DURATION_PART = re.compile(rf"(?<!\S)(\d+)\s*({'|'.join(_UNITS_MS)})s?(?!\S)", re.ASCII)

TIME_FORMS = "a time: ISO 8601, such as 2026-11-21T06:00, or milliseconds since 1970"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_MAX = 2**63 - 1
EPOCH_MS_MIN = 100_000_000_000  # in 1973: fewer digits are a date without dashes, or seconds


def printable(text: str) -> str:
    """Returns a text with control characters escaped, so that it stays on its line and cannot steer a terminal."""
    return text if text.isprintable() else _UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def parse_instant(text: str, *, least_ms: int = EPOCH_MS_MIN) -> int:
    """Returns ms since 1970 for a number of ms, or for ISO 8601 text, which is in UTC unless it has a zone.

    A fraction of a ms is rounded up, so that the first record at or after the result is not before the time. A number
    below ``least_ms`` is read as ISO 8601: by default, ``20261121`` is a day. Raises ValueError for any other text.
    """
    number = text.strip().removeprefix("+")
    if number.isascii() and number.isdecimal() and least_ms <= int(number) <= _LONG_MAX:
        return int(number)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"{text!r} is neither ISO 8601, such as 2026-11-21T06:00, nor milliseconds since 1970"
        ) from None
    return ms_of(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def ms_of(moment: datetime) -> int:
    """Returns a time with a zone as ms since 1970; a fraction of a ms is rounded up."""
    return -((_EPOCH - moment) // timedelta(milliseconds=1))


def parse_duration_ms(text: str) -> int:
    """Returns a duration such as ``5 minutes`` or ``1 hour 30 minutes``, as Spark's triggers take it, in ms.

    Units are milliseconds, seconds, minutes, hours, days and weeks, also in the singular. Raises ValueError for any
    other text, and for a duration of 0.
    """
    parts = _DURATION_PART.findall(text.lower())
    if not parts or _DURATION_PART.sub("", text.lower()).strip():
        raise ValueError(f"{text!r} is not a duration such as '5 minutes' or '1 hour'")
    duration_ms = sum(int(amount) * _UNITS_MS[unit] for amount, unit in parts)
    if duration_ms == 0:
        raise ValueError(f"{text!r} must be longer than 0")
    return duration_ms


def parse_names(option: str, given: Sequence[str]) -> list[str]:
    """Returns the names in an option that may be repeated and may have several names separated by commas.

    Raises InvalidConfigError if the option is given without a name, for example because a variable is not set.
    """
    names = [each.strip() for text in given for each in text.split(",") if each.strip()]
    if given and not names:
        raise InvalidConfigError(f"{option} is empty: give a name or omit the option")
    return names


def parse_pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Returns ``key=value`` pairs as a mapping; the last pair of a key counts. Raises InvalidConfigError."""
    pairs: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise InvalidConfigError(f"{option} {masked(text)!r}: expected key=value, such as retention.ms=86400000")
        pairs[key.strip()] = value.strip()
    return pairs


def is_secret(name: str) -> bool:
    """Whether the value of this setting, such as ``sasl.jaas.config`` or ``ssl_password``, must not be shown."""
    return _SECRET_NAME.search(name) is not None


def masked(text: str) -> str:
    """Returns ``text`` with ``***`` in place of secret values, and of user and password in an address."""
    return _USER_INFO.sub("://***@", _SECRET_PAIR.sub(r"\1***", text))


def counted(amount: int, noun: str) -> str:
    """Returns a number with its noun: ``1 segment``, ``2 segments``, ``2 batches``."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{amount:,} {noun}" + ("" if amount == 1 else plural)


class Address(NamedTuple):
    """Host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(key: str, given: str) -> Address:
    """Parses ``HOST:PORT``; an IPv6 address has brackets. Raises InvalidConfigError, which names ``key``."""
    host, colon, port = given.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidConfigError(f"{key} = {given!r}: must be HOST:PORT, such as 127.0.0.1:9092")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a listener on ``host``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host.lower() == "localhost"
