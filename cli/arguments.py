"""Parsers of flag values: an invalid value or setting is wrong usage (exit code 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer

from .. import storage
from .output import fail


def parse_instant(flag: str, text: str) -> int:
    """Returns milliseconds since the epoch for a time as text, which is in UTC unless it names a zone."""
    return _parsed(storage.parse_instant, flag, text)


def parse_record_time(flag: str, text: str) -> int:
    """Returns a time of records, as :func:`parse_instant` does; any number is milliseconds, as in Kafka's tools."""
    return _parsed(partial(storage.parse_instant, least_ms=0), flag, text)


def parse_interval(flag: str, text: str) -> int:
    """Returns the milliseconds of a duration such as ``5 minutes``."""
    return _parsed(storage.parse_duration_ms, flag, text)


def _parsed(parse: Callable[[str], int], flag: str, text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{flag} {error}") from None


@contextmanager
def settings_given() -> Iterator[None]:
    """Exits with 2 if a setting that the block reads is unknown or invalid."""
    try:
        yield
    except storage.InvalidConfigError as error:
        fail(str(error), code=2)


def parse_pairs(flag: str, given: Iterable[str]) -> dict[str, str]:
    """Returns ``key=value`` pairs as a dictionary; the last pair of a key counts."""
    try:
        return storage.parse_pairs(flag, given)
    except storage.InvalidConfigError as error:
        raise typer.BadParameter(str(error)) from None


def read_settings(conf: Path) -> dict[str, Any]:
    """Returns the content of the TOML file that ``--conf`` names. Exits with 2 if it is missing or not TOML."""
    import tomllib  # noqa: PLC0415  most commands have no such file

    try:
        return tomllib.loads(conf.read_text())
    except FileNotFoundError:
        fail(f"{conf}: no such file; give one with --conf", code=2)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        fail(f"{conf}: {error}", code=2)
