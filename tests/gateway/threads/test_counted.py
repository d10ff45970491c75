"""Counted: how often what many clients can cause is logged."""

from __future__ import annotations

import logging

import pytest

from pyspark_commitlog.gateway.threads.counted import AGAIN_S, LINE_CHARACTERS_MAX, LINES_MAX, Counted
from pyspark_commitlog.gateway.threads.repeats import KINDS_MAX


def test_the_first_of_a_kind_is_logged_and_then_a_count_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [5.0]
    counted = Counted(logging.getLogger("test"), lambda: now_s[0])
    for _ in range(20):
        counted.warn("h1", "h1: TLS: WRONG_VERSION_NUMBER")
    counted.warn("h2", "h2: TLS: WRONG_VERSION_NUMBER")
    now_s[0] += AGAIN_S
    for _ in range(20):
        counted.warn("h1", "h1: TLS: WRONG_VERSION_NUMBER")
    assert caplog.messages == [
        "h1: TLS: WRONG_VERSION_NUMBER",
        "h2: TLS: WRONG_VERSION_NUMBER",
        "h1: TLS: WRONG_VERSION_NUMBER (and 19 times since the last such line)",
    ]


def test_many_kinds_take_no_more_memory() -> None:
    counted = Counted(logging.getLogger("test"))
    for kind in range(3 * KINDS_MAX):
        counted.warn(kind, "a line")
    assert len(counted._repeats) <= KINDS_MAX


def test_kinds_that_clients_choose_fill_neither_the_memory_nor_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [5.0]
    counted = Counted(logging.getLogger("test"), lambda: now_s[0])
    for number in range(LINES_MAX + 50):
        counted.warn(("h1", f"{number}" * 1000), f"{number}: " + "x" * 2 * LINE_CHARACTERS_MAX)
    assert len(caplog.messages) == LINES_MAX
    assert max(map(len, caplog.messages)) == LINE_CHARACTERS_MAX + len("…")
    assert len(repr(counted._repeats._kinds)) < 100 * LINES_MAX * 2
    caplog.clear()
    now_s[0] += AGAIN_S
    counted.warn("h1", "a line")
    counted.warn("h2", "another line")
    assert caplog.messages == ["a line (50 lines of other kinds were omitted)", "another line"]
