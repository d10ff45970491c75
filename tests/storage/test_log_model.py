"""Random histories of a log against a plain list: the same records in both isolation levels, whatever happens."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyspark_commitlog.storage.reader import Isolation, KeptInMemory
from tests.support.logs import append, batch, end_transaction, open_log, open_reader, rows, write_transactional

PRODUCERS = (1, 2, 3)
SETTINGS: dict[str, Any] = {"segment_bytes": 500, "index_interval_bytes": 100, "segment_index_bytes": 200}
VALUES = st.lists(st.binary(max_size=40), min_size=1, max_size=4)


class Row(NamedTuple):
    """A record or a marker as the model knows it."""

    offset: int
    value: bytes | None  # None: a marker
    producer_id: int = -1  # of a transactional record, or of the producer whose transaction a marker ends
    commits: bool = False
    batch_start: int = 0


class LogAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.marks = KeptInMemory()
        self.log = open_log(self.directory, self.marks, **SETTINGS)
        self.rows: list[Row] = []
        self.start = self.end = 0
        self.sequences: dict[int, int] = {}

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.directory)

    def wrote(self, values: list[bytes], producer_id: int = -1) -> None:
        self.rows += [Row(self.end + n, value, producer_id, batch_start=self.end) for n, value in enumerate(values)]
        self.end += len(values)

    def open_since(self, producer_id: int) -> int | None:
        """The first offset of its open transaction."""
        first = None
        for row in self.rows:
            if row.producer_id == producer_id:
                first = None if row.value is None else row.offset if first is None else first
        return first

    @rule(values=VALUES)
    def append_plainly(self, values: list[bytes]) -> None:
        append(self.log, *values)
        self.wrote(values)

    @rule(values=VALUES, repeats=st.integers(1, 3))
    def append_idempotently(self, values: list[bytes], repeats: int) -> None:
        sequence = self.sequences.get(9, 0)
        for _ in range(repeats):
            self.log.append(batch(*values, producer_id=9, base_sequence=sequence))
        self.sequences[9] = sequence + len(values)
        self.wrote(values)

    @rule(producer_id=st.sampled_from(PRODUCERS), values=VALUES)
    def append_in_a_transaction(self, producer_id: int, values: list[bytes]) -> None:
        sequence = self.sequences.get(producer_id, 0)
        write_transactional(self.log, producer_id, sequence, *values)
        self.sequences[producer_id] = sequence + len(values)
        self.wrote(values, producer_id)

    @rule(producer_id=st.sampled_from(PRODUCERS), commits=st.booleans())
    def end_a_transaction(self, producer_id: int, commits: bool) -> None:
        end_transaction(self.log, producer_id, commit=commits)
        self.rows.append(Row(self.end, None, producer_id, commits, self.end))
        self.end += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(is_closed=st.booleans())
    def reopen(self, is_closed: bool) -> None:
        if is_closed:
            self.log.close()
        self.log = open_log(self.directory, self.marks, **SETTINGS)

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.truncate_to(offset)
        reached = [row.batch_start for row in self.rows if row.offset >= offset]
        self.end = min(reached, default=self.end)
        self.start = min(self.start, self.end)
        self.rows = [row for row in self.rows if row.offset < self.end]
        self.sequences = {
            producer.producer_id: producer.last_sequence + 1 for producer in self.log.producers.producers.values()
        }

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = max(self.start, data.draw(st.integers(0, self.end)))
        assert self.log.delete_records(self.start) == self.start

    @invariant()
    def the_log_begins_and_ends_as_the_list(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        unstable = [first for producer_id in PRODUCERS if (first := self.open_since(producer_id)) is not None]
        assert self.log.last_stable_offset == max(min(unstable, default=self.end), self.start)

    @invariant()
    def everyone_reads_what_is_in_the_list(self) -> None:
        records = [(row.offset, row.value) for row in self.rows if row.value is not None and row.offset >= self.start]
        reader = open_reader(self.directory, self.marks, **SETTINGS)
        stable = self.log.last_stable_offset
        hidden = self.aborted()
        for log in (self.log, reader):
            assert rows(log) == records
            shown = [(offset, value) for offset, value in records if offset < stable and offset not in hidden]
            assert rows(log, Isolation.READ_COMMITTED) == shown
        reader.close()

    def aborted(self) -> set[int]:
        hidden: set[int] = set()
        pending: dict[int, set[int]] = {}
        for row in self.rows:
            if row.value is not None:
                pending.setdefault(row.producer_id, set()).add(row.offset)
            else:
                ended = pending.pop(row.producer_id, set())
                hidden |= set() if row.commits else ended
        return hidden


TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
