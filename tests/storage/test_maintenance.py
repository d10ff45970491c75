"""Maintenance of whole directories, in this process: what the jobs do, without Spark."""

from __future__ import annotations

import errno
import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pyspark_commitlog.storage.errors import InvalidConfigError, UnknownTopicOrPartitionError
from pyspark_commitlog.storage.filesystem import LocalFileSystem
from pyspark_commitlog.storage.format import checkpoints, names
from pyspark_commitlog.storage.groups import CommittedOffset, GroupOffsets
from pyspark_commitlog.storage.maintenance import (
    ConfigOverrides,
    MaintenanceRun,
    OutcomeStatus,
    PartitionOutcome,
    compact_partitions,
    in_this_process,
    retain_partitions,
    select_partitions,
    verify_partitions,
)
from pyspark_commitlog.storage.manager import LogManager
from tests.support.clock import ManualClock
from tests.support.compaction import Pass, batches, passes
from tests.support.faulty_filesystem import FaultyFileSystem, fail, tear
from tests.support.logs import append, records
from tests.support.maintenance import (
    DELETED_BELOW,
    EXACT,
    OTHER_BYTES,
    lay_out_directory,
    left_by,
    segment_files,
    topic_of,
    tree,
    topic_of,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "retention"
EXPECTED: Mapping[str, Any] = json.loads((GOLDEN / "expected.json").read_text())
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@dataclass(frozen=True)
class TimedRun(MaintenanceRun):
    """A run whose rounds begin at given times, the last of which stays."""

    times_ms: list[int] = field(default_factory=list)

    def now_ms(self) -> int:
        return self.times_ms.pop(0) if len(self.times_ms) > 1 else self.times_ms[0]


# As Kafka's cleaner did it


@pytest.mark.parametrize("each", EXACT, ids=str)
def test_a_run_over_a_directory_leaves_what_the_real_cleaner_left(each: Pass, tmp_path: Path) -> None:
    lay_out_directory(each, tmp_path / "log")
    overrides = ConfigOverrides(each.configs, {key: str(value) for key, value in each.broker.items()})
    # One look chooses the log, one begins each round, and one finds that nothing is due any more.
    run = TimedRun(
        str(tmp_path / "log"),
        overrides=overrides,
        clock=ManualClock(each.times_ms[0]),
        times_ms=[each.times_ms[0], *each.times_ms],
    )
    (outcome,) = compact(run, topic_of(each)[0])
    assert outcome.status is OutcomeStatus.DONE
    assert outcome.facts["rounds"] == len(each.times_ms)
    expected = left_by(each)
    found = segment_files(tmp_path / "log" / each.partition, DELETED_BELOW.get(str(each), 0))
    assert found.keys() == expected.keys()
    assert batches(found) == batches(expected)
    if each.partition not in OTHER_BYTES:
        assert [name for name in expected if found[name] != expected[name]] == []
    told = checkpoints.decode_offsets((tmp_path / "log" / names.CLEANER_OFFSET_CHECKPOINT).read_bytes())
    assert told == {topic_of(each): each.next_first_dirty_offset}


def compact(run: MaintenanceRun, *topics: str) -> list[PartitionOutcome]:
    return work(run, topics, compact_partitions)


def work(
    run: MaintenanceRun, topics: Sequence[str], what: Callable[..., Iterator[PartitionOutcome]], **options: Any
) -> list[PartitionOutcome]:
    with run.manager() as manager:
        selection = select_partitions(manager, topics, run.overrides)
    return list(what(run, selection, in_this_process, **options))
