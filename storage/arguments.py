"""What people give on a command line, for the commands and the jobs alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pyspark_commitlog.storage.errors import InvalidConfigError

_SECRET = r"password|passwd|secret|token|credential|jaas|authorization|private[._-]?key|keystore[._-]key|api[._-]?key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
_SECRET_PAIR = re.compile(rf"([\w.-]*(?:{_SECRET})[\w.-]*(?:\s*[=:]\s*|\s+))(?!--).*?(?=\s--|$)", re.IGNORECASE | re.M)
_USER_INFO = re.compile(r"://[^\s/]*@")

EPOCH_MS_MIN = 100_000_000_000  # of 1973: fewer digits are a date without dashes, or seconds


def parse_instant(text: str) -> int:
    """Milliseconds since the epoch, from these or ISO 8601, in UTC where it names no zone. Raises ValueError."""
    if text.isdecimal() and int(text) >= EPOCH_MS_MIN:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither ISO 8601, such as 2026-11-21T06:00, nor milliseconds since 1970"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_names(option: str, given: Sequence[str]) -> list[str]:
    """The names in an option that may be repeated, and hold several separated by commas.

    Raises InvalidConfigError where the option is given and names nothing, as by a variable that is not set.
    """
    names = [each.strip() for text in given for each in text.split(",") if each.strip()]
    if given and not names:
        raise InvalidConfigError(f"{option} is empty: name what is meant, or leave the option out")
    return names


def parse_pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """From ``key=value``, the last of a key counts. Raises InvalidConfigError for another form."""
    pairs: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise InvalidConfigError(f"{option} {masked(text)!r}: key=value is expected, such as retention.ms=86400000")
        pairs[key.strip()] = value.strip()
    return pairs


def is_secret(name: str) -> bool:
    """Whether a setting of this name, such as ``sasl.jaas.config`` or ``ssl_password``, is not to be shown."""
    return _SECRET_NAME.search(name) is not None


def masked(text: str) -> str:
    """``text`` with ``***`` for what follows the name of a secret, and for a user and password in an address."""
    return _USER_INFO.sub("://***@", _SECRET_PAIR.sub(r"\1***", text))
