"""Random writers, limits and restarts: a streaming read returns every committed record once, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.arrow.columns import schema_of
from pyspark_commitlog.pipeline.read.admission import ReadAllAvailable
from pyspark_commitlog.pipeline.read.options import ReadOptions, Use
from pyspark_commitlog.pipeline.read.stream import StreamReader
from pyspark_commitlog.pipeline.read.task_ranges import OffsetRange
from pyspark_commitlog.storage import Isolation, LogManager, TopicPartition
from tests.support.logs.building import end_transaction, records, write_transactional

Rows = dict[TopicPartition, list[int]]  # offsets

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 20)),
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.sampled_from(["roll", "delete_what_was_read"]), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("batch"), st.just(0), st.integers(0, 1)),
        st.tuples(st.just("restart"), st.just(0), st.integers(0, 1)),
    ),
    max_size=30,
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "maxOffsetsPerTrigger": st.integers(5, 30).map(str),
        "maxBytesPerTrigger": st.integers(1, 2000).map(str),
        "minOffsetsPerTrigger": st.integers(1, 5).map(str),
        "maxTriggerDelay": st.just("0s"),
        "maxRecordsPerPartition": st.integers(1, 7).map(str),
    },
)


class World:
    """Topics ``t0`` and ``t1`` of two partitions, the second one created when it is first written to; and a query."""

    def __init__(self, directory: str, options: dict[str, str]) -> None:
        self.manager = LogManager.open(directory, create=True)
        self.manager.create_topic("t0", partitions=2)
        self.given = {"path": directory, "subscribePattern": "t.", "startingOffsets": "earliest"} | options
        self.expected: Rows = {}
        self.found: Rows = {}
        self.sequences: dict[tuple[int, int], int] = {}
        self.open: set[tuple[int, int]] = set()
        self.checkpoint: dict[str, Any] | None = None
        self.restart(0, 0)

    def _partition(self, number: int) -> TopicPartition:
        if number >= 2:
            self.manager.ensure_topic("t1", partitions=2)
        return TopicPartition(f"t{number // 2}", number % 2)

    def append(self, number: int, count: int) -> None:
        self.manager.open_log(*self._partition(number)).append_records(records([b"x" * count] * count))

    def write(self, number: int, producer: int) -> None:
        sequence = self.sequences.get((number, producer), 0)
        write_transactional(self.manager.open_log(*self._partition(number)), producer, sequence, b"a", b"b")
        self.sequences[number, producer] = sequence + 2
        self.open.add((number, producer))

    def commit(self, number: int, producer: int) -> None:
        self._end(number, producer, commit=True)

    def abort(self, number: int, producer: int) -> None:
        self._end(number, producer, commit=False)

    def _end(self, number: int, producer: int, *, commit: bool) -> None:
        if (number, producer) in self.open:
            end_transaction(self.manager.open_log(*self._partition(number)), producer, commit=commit)
            self.open.remove((number, producer))

    def roll(self, number: int, _: int) -> None:
        self.manager.open_log(*self._partition(number)).roll()

    def delete_what_was_read(self, number: int, _: int) -> None:
        """Deletes nine tenths of it."""
        partition = self._partition(number)
        read = ((self.checkpoint or {}).get(partition.topic) or {}).get(str(partition.partition), 0)
        start = max(read * 9 // 10, self.manager.marks(partition).log_start_offset)
        self._note_expected(partition, start)
        self.manager.write_marks({partition: self.manager.marks(partition)._replace(log_start_offset=start)})

    def _note_expected(self, partition: TopicPartition, end: int) -> None:
        """Notes the committed records below ``end``, from a plain read."""
        with self.manager.open_reader(*partition) as reader:
            for part in reader.records(reader.log_start_offset, end, isolation=Isolation.READ_COMMITTED, columns=()):
                self.expected.setdefault(partition, []).extend(part.offsets.tolist())

    def restart(self, _: int, available_now: int) -> None:
        self.reader = StreamReader(ReadOptions.parse(self.given, Use.STREAM), schema_of(["offset"]))
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def batch(self, _: int, everything: int) -> bool:
        """Returns whether there was anything new."""
        start = self.reader.initialOffset() if self.checkpoint is None else self.checkpoint
        limit = ReadAllAvailable() if everything else self.reader.getDefaultReadLimit()
        end = self.reader.latestOffset(start, limit)
        if end == start:
            return False
        parts = self.reader.partitions(start, end)
        for part in sorted(parts, key=lambda each: (each.source, each.start)):  # type: ignore[attr-defined]
            assert isinstance(part, OffsetRange)
            for piece in self.reader.read(part):
                self.found.setdefault(part.source, []).extend(piece["offset"].to_pylist())
        self.checkpoint = end
        return True

    def finish(self) -> None:
        self.restart(0, 1)
        while self.batch(0, 0):
            pass
        for name, topic in self.manager.topics().items():
            for partition in topic.partitions:
                with self.manager.open_reader(name, partition) as reader:
                    end = reader.last_stable_offset
                self._note_expected(TopicPartition(name, partition), end)
        self.manager.close()


@settings(max_examples=40)
@given(steps=steps, options=limits)
def test_every_committed_record_is_read_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], options: dict[str, str]
) -> None:
    world = World(str(Path(tmp_path_factory.mktemp("model")) / "log"), options)
    for step, *arguments in steps:
        getattr(world, step)(*arguments)
    world.finish()
    assert world.found == world.expected
