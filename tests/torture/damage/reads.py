"""A damaged partition before the engine's reader: exactly what was written, or an error, in both isolation levels.

The reader is opened as the data source opens it, with the settings and checkpoints of the log directory. Where it shows
other records without an error, what lies there must look like a sound log to everybody:
:mod:`tests.torture.damage.oracle` walks the bytes by itself, and says in which of few ways they do. Each way is counted
in the outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random

from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.reading.aborted import Isolation
from tests.support.disk.frozen_filesystem import FrozenFileSystem
from tests.torture.damage import oracle
from tests.torture.damage.log_damage import Damaged, damaged
from tests.torture.damage.sound_logs import ALONE, Reading, Row, SoundLog, open_reader, read_all, sound_logs
from tests.torture.suite import quiet

BROKERS_SHARE = 0.75  # the others are record sets
PARTS_SHARE = 0.2  # of inputs from which a part is read, and a time looked up
REFUSED, AS_WRITTEN = "refused", "as written"
LOGGER = logging.getLogger("pyspark_commitlog")


class Heard(logging.Handler):
    """The warnings that a reader gave."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@contextmanager
def hearing() -> Iterator[list[str]]:
    handler, propagates = Heard(), LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    try:
        yield handler.told
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.propagate = propagates


@cache
def prepare() -> dict[tuple[bool, bool], list[SoundLog]]:
    """The logs to draw from: whether each is of a broker's directory, and whether it stands alone."""
    found: dict[tuple[bool, bool], list[SoundLog]] = {}
    for log in sound_logs():
        found.setdefault((log.is_of_broker, log.surroundings == ALONE), []).append(log)
    return found


def draw(chance: Random) -> SoundLog:
    """Half of them alone, without a checkpoint beside them; most from brokers' directories."""
    return chance.choice(prepare()[chance.random() < BROKERS_SHARE, chance.random() < 0.5])


def attempt(chance: Random) -> list[str]:
    """Read a damaged log; what came of it in each isolation level, in a word each."""
    log = draw(chance)
    damage = damaged(log, chance)
    try:
        return check(log, damage, chance)
    except Exception as error:
        error.add_note(f"{log.name}: {damage.what}")
        raise


def check(log: SoundLog, damage: Damaged, chance: Random) -> list[str]:
    disk = log.disk.changed(damage.changes)
    levels = sorted(Isolation, key=lambda _: chance.random())
    with hearing() as warnings:
        readings = read(disk, log, levels)
    words = []
    for level, reading in readings.items():
        if reading is None:
            words.append(REFUSED)
        elif reading.signature() == log.signatures[level]:
            words.append(AS_WRITTEN)
        else:
            words.append(oracle.judge(log, disk, level, reading.rows(), warnings))
    is_one = len(damage.changes) == 1  # of several, one may be refused and another be no damage to anybody
    if is_one and chance.random() < PARTS_SHARE and {*words} <= {REFUSED, AS_WRITTEN}:
        lies_there = oracle.look(log, disk, oracle.told_by(log, disk)).rows if REFUSED in words else []
        with quiet():
            check_a_part(log, disk, chance, lies_there)
            check_a_time(log, disk, chance, lies_there)
    return words


def read(disk: FrozenFileSystem, log: SoundLog, levels: list[Isolation]) -> dict[Isolation, Reading | None]:
    """None where an error says that something is damaged."""
    try:
        reader = open_reader(disk, log.topic, log.partition)
    except LogStoreError:
        return dict.fromkeys(levels)
    found: dict[Isolation, Reading | None] = {}
    with reader:
        for level in levels:
            try:
                found[level] = read_all(reader, level)
            except LogStoreError:
                found[level] = None
    return found


def check_a_part(log: SoundLog, disk: FrozenFileSystem, chance: Random, lies_there: list[Row]) -> None:
    """From any offset to any other, which the index leads to: as it was written, or as it lies before the damage."""
    level = chance.choice(list(Isolation))
    start, end = sorted(chance.randint(log.log_start_offset, log.log_end_offset) for _ in range(2))
    try:
        with open_reader(disk, log.topic, log.partition) as reader:
            start = max(start, reader.log_start_offset)
            if start >= reader.log_end_offset:
                return  # a log that lost its end: what it holds is judged, who waits behind its end is not
            found = Reading(list(reader.records(start, end, isolation=level))).rows()
    except LogStoreError:
        return
    expected = [[row for row in rows if start <= row[0] < end] for rows in (log.rows[level], lies_there)]
    is_before = bool(lies_there) and lies_there[-1][0] >= end - 1 and found == expected[1]
    assert found == expected[0] or is_before, (
        f"{level.value}: {len(found)} rows of {len(expected[0])}: {start} to {end}"
    )


def check_a_time(log: SoundLog, disk: FrozenFileSystem, chance: Random, lies_there: list[Row]) -> None:
    """The first record that is not older, which the time index leads to: as :func:`check_a_part`."""
    rows = log.rows[Isolation.READ_UNCOMMITTED]
    if not rows:
        return
    time = chance.choice(rows)[1] + chance.choice((0, 0, 1, -1))
    try:
        with open_reader(disk, log.topic, log.partition) as reader:
            answer = reader.offset_for_timestamp(time, Isolation.READ_UNCOMMITTED)
    except LogStoreError:
        return
    found = None if answer is None else answer[:2]
    written, there = (next((row[:2] for row in each if row[1] >= time), None) for each in (rows, lies_there))
    assert found == written or (found is not None and found == there), f"{found} at the time {time}, not {written}"
