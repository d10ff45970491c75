"""Lines of the log: what a client sends cannot look like one."""

from __future__ import annotations

import io
import logging

import pytest

from pyspark_commitlog.storage import LineFormatter, printable

FORGED = "2026-01-01 00:00:00,000 ERROR forged"
ENDS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"]


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logger(written: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(written)
    handler.setFormatter(LineFormatter())
    made = logging.Logger("test")
    made.addHandler(handler)
    return made


@pytest.mark.parametrize("end", ENDS)
def test_a_name_with_an_end_of_a_line_stays_in_its_line(logger: logging.Logger, written: io.StringIO, end: str) -> None:
    logger.warning("group %s: empty", f"g{end}{FORGED}\x1b[31m")
    text = written.getvalue()
    assert len(text.splitlines()) == 1
    assert FORGED in text
    assert "\x1b" not in text


@pytest.mark.parametrize("end", ENDS)
def test_an_error_with_an_end_of_a_line_makes_no_line_that_begins_as_one(
    logger: logging.Logger, written: io.StringIO, end: str
) -> None:
    try:
        raise ValueError(f"g{end}{FORGED}\x1b[31m")
    except ValueError:
        logger.exception("a task failed")
    first, *more = written.getvalue().splitlines()
    assert first.endswith("ERROR a task failed")
    assert any("ValueError: g" in each for each in more)
    assert all(each.startswith("    ") for each in more)
    assert "\x1b" not in written.getvalue()


@pytest.mark.parametrize("text", ["", "a name", "größe", "日本", "a\\n", "👍"])
def test_texts_without_control_characters_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb"),
        ("\x7f", "\\x7f"),
        ("\0", "\\x00"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
