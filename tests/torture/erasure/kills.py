"""Processes that are killed while they erase: at every step, and at random moments.

Case 0 is every step: after each change of a disk in memory, the process ends, or the power fails, and what is left is
opened, read and erased again. Each further case is a directory with two partitions from which a process erases; it is
killed (SIGKILL) at random moments, again and again while it completes, and the last run is not killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

from pyspark_commitlog.arrow.choice import SqlChoice
from pyspark_commitlog.storage import LogManager
from pyspark_commitlog.storage.erasure.certificate import Erasure
from pyspark_commitlog.storage.erasure.keys import AskedKeys
from pyspark_commitlog.storage.erasure.operation import erase_partitions
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus
from pyspark_commitlog.storage.maintenance.partitions import in_this_process
from pyspark_commitlog.storage.maintenance.run import ConfigOverrides, MaintenanceRun
from pyspark_commitlog.storage.maintenance.selecting import select_partitions
from pyspark_commitlog.storage.verify.log import verify_log
from tests.storage.erasure.test_one_log import Found, erased, found, without
from tests.storage.erasure.test_one_log_crash import ANN, a_log, erase_all, filled
from tests.support.disk.power_cuts import Effort
from tests.support.logs import raw_scan
from tests.support.logs.building import NOW_MS, records
from tests.torture.kills.processes import FORK
from tests.torture.suite import Case, Run, Suite, quiet

PARTITIONS, SEGMENTS = 2, 4
TOO_LATE_S = 600
KEYS = [b"person-%d-of-a-few" % n for n in range(6)]
GONE = KEYS[2]
BY_KEY, BY_CONDITION = "key", "condition"
Rows = dict[int, list[Found]]


def every_step() -> int:
    """Returns at how many steps the process ended."""
    start, old = filled()
    new, steps = without(old, ANN), 0
    for where, disk in Effort(with_kills=True).cut(erase_all, start):
        steps += 1
        with a_log(disk) as log:
            left = found(log)
            assert log.log_end_offset == 7, where
            assert [row for row in left if row[2] != ANN] == new, where
            assert [row for row in old if row in left] == left, where
            erased(log, ANN)
            assert found(log) == new, where
    return steps


def make(directory: Path, chance: Random) -> None:
    with LogManager.open(str(directory), create=True) as manager:
        configs = {"cleanup.policy": chance.choice(("compact", "delete")), "segment.index.bytes": "4000"}
        manager.create_topic("orders", partitions=PARTITIONS, configs=configs)
        for number in range(PARTITIONS):
            log = manager.open_log("orders", number)
            for n in range(SEGMENTS):
                for _ in range(chance.randint(1, 4)):
                    some = [chance.choice(KEYS) for _ in range(chance.randint(1, 30))]
                    values = [b"%d %s" % (n, chance.randbytes(60).hex().encode()) for _ in some]
                    rows = records(values, keys=some, timestamps=NOW_MS + n)
                    log.append(v2.encode(rows, v2.BatchFields(codec=chance.choice([*Codec]))))
                if n < SEGMENTS - 1:
                    log.roll()
            log.sync()


def read(directory: Path) -> Rows:
    with LogManager.open(str(directory)) as manager:
        return {number: found(manager.open_reader("orders", number)) for number in range(PARTITIONS)}


def asked_for(directory: Path, how: str) -> Erasure:
    wanted = AskedKeys(frozenset([GONE])) if how == BY_KEY else SqlChoice(f"key_text = '{GONE.decode()}'")
    return Erasure(wanted, "a test", ("orders",), f"{directory}.json")


def erase(directory: Path, asked: Erasure) -> None:
    run = MaintenanceRun(str(directory))
    with run.manager() as manager:
        selection = select_partitions(manager, asked.topics, ConfigOverrides())
    outcomes = list(erase_partitions(run, selection, in_this_process, asked))
    assert {each.status for each in outcomes} == {OutcomeStatus.DONE}, outcomes


def killed(directory: Path, asked: Erasure, after_s: float) -> bool:
    """Erases in a process that is killed after some time; returns whether it was killed before it had ended."""
    process = FORK.Process(target=erase, args=(directory, asked))
    process.start()
    assert process.pid is not None
    process.join(after_s)
    if process.exitcode is None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def check_left(directory: Path, before: Rows) -> None:
    """What a killed run leaves: all other records, and of those to be erased the ones in segments that are old."""
    for number, rows in read(directory).items():
        assert without(rows, GONE) == without(before[number], GONE), number
        assert [row for row in before[number] if row in rows] == rows, number


def check_end(directory: Path, before: Rows, asked: Erasure) -> None:
    assert read(directory) == {number: without(rows, GONE) for number, rows in before.items()}
    assert not raw_scan.has(directory, GONE)
    content: dict[str, Any] = json.loads(Path(asked.certificate).read_text())
    assert content["is_complete"]
    with LogManager.open(str(directory)) as manager:
        for number in range(PARTITIONS):
            findings = verify_log(manager.open_reader("orders", number).context).findings
            assert not findings, ", ".join(map(str, findings))


def one(run: Run, case: Case, whole_s: float) -> None:
    directory, chance = run.directory / str(case.number), case.chance
    make(directory, chance)
    before, asked = read(directory), asked_for(directory, chance.choice((BY_KEY, BY_KEY, BY_CONDITION)))
    for _ in range(chance.randint(1, 6)):
        is_killed = killed(directory, asked, chance.random() ** 2 * 1.3 * whole_s)
        run.note("before the end", is_killed)
        check_left(directory, before)
        run.passed()
        if not is_killed:
            break
    erase(directory, asked)
    check_end(directory, before, asked)
    remove(directory)


def time_of_one(directory: Path, chance: Random) -> float:
    """Returns how long an erasure takes in a process of its own, in seconds."""
    make(directory, chance)
    began_s = time.monotonic()
    killed(directory, asked_for(directory, BY_CONDITION), TOO_LATE_S)
    remove(directory)
    return time.monotonic() - began_s


def remove(directory: Path) -> None:
    shutil.rmtree(directory)
    Path(f"{directory}.json").unlink(missing_ok=True)


def run(run: Run) -> None:
    with quiet():
        erase_one(run.directory / "first")  # loads the kernels, which no child then does
        whole_s = time_of_one(run.directory / "second", Random(1))
        for case in run.cases():
            with run.watching(case):
                if case.number:
                    one(run, case, whole_s)
                else:
                    run.note("steps", every_step())
                    run.passed()


def erase_one(directory: Path) -> None:
    make(directory, Random(1))
    for how in (BY_KEY, BY_CONDITION):
        erase(directory, asked_for(directory, how))
        Path(f"{directory}.json").unlink()
    remove(directory)


SUITE = Suite("kills", 200, run)
