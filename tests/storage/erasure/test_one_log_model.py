"""Random erasures from random logs: every codec, format, producers, transactions, and compaction in between."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from pyspark_commitlog.storage.compaction.rounds import Cleaner
from pyspark_commitlog.storage.format import by_magic, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.reading.aborted import Isolation
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.writing.log import Log
from tests.storage.erasure.test_one_log import Found, a_log, erased, found, without
from tests.support.logs import raw_scan
from tests.support.logs.building import NOW_MS, end_transaction, records

# No key is a part of another one, or of a value.
KEYS = [b"key-%d-of-a-person" % n for n in range(5)]
BATCHES = st.lists(st.sampled_from(KEYS), min_size=1, max_size=5)
CODECS = st.sampled_from(list(Codec))
OLD_FORMATS = [(0, Codec.NONE), (0, Codec.GZIP), (1, Codec.NONE), (1, Codec.SNAPPY), (1, Codec.LZ4)]
OLD = st.sampled_from(OLD_FORMATS)
ACTIONS = st.one_of(
    st.tuples(st.just("plain"), BATCHES, CODECS),
    st.tuples(st.just("send"), st.integers(0, 2), BATCHES, CODECS),
    st.tuples(st.just("end"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("erase"), st.sets(st.sampled_from(KEYS), min_size=1, max_size=2)),
)


class World:
    """A log on disk, and what was erased from it last."""

    def __init__(self, log: Log, directory: Path) -> None:
        self.log, self.directory = log, directory
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.clean_end: int | None = None

    def old(self, magic: int, codec: Codec, keys: list[bytes]) -> None:
        rows = records([b"old"] * len(keys), keys=keys)
        rows.offsets[:] += self.log.log_end_offset
        self.log.append(np.array(by_magic(magic).encode(rows, codec)), origin=Origin.REPLICATION)

    def plain(self, keys: list[bytes], codec: Codec) -> None:
        self._append(keys, v2.BatchFields(codec=codec))

    def send(self, producer: int, keys: list[bytes], codec: Codec) -> None:
        sequence = self.sequences.get(producer, 0)
        fields = v2.BatchFields(
            codec=codec, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        self._append(keys, fields)
        self.sequences[producer] = sequence + len(keys)
        self.open.add(producer)

    def _append(self, keys: list[bytes], fields: v2.BatchFields) -> None:
        end = self.log.log_end_offset
        values = [b"at %d" % (end + n) for n in range(len(keys))]
        times = [NOW_MS + (end + n) % 7 for n in range(len(keys))]
        self.log.append(v2.encode(records(values, keys=keys, timestamps=times), fields))

    def end(self, producer: int, is_commit: bool) -> None:
        if producer in self.open:
            end_transaction(self.log, producer, commit=is_commit)
            self.open.discard(producer)

    def roll(self) -> None:
        self.log.roll()

    def compact(self) -> None:
        self.clean_end = Cleaner().clean(self.log, self.clean_end, NOW_MS).next_first_dirty_offset

    def erase(self, keys: set[bytes]) -> None:
        end = self.log.log_end_offset
        wanted = [without(rows, *keys) for rows in self._views()]
        erased(self.log, *keys)
        assert self._views() == wanted
        self.log.refresh()
        assert self._views() == wanted
        assert self.log.log_end_offset == end
        for key in keys:
            assert not raw_scan.has(self.directory, key)

    def _views(self) -> list[list[Found]]:
        return [found(self.log, isolation) for isolation in Isolation]


@settings(max_examples=40, deadline=None)
@given(
    old=st.lists(st.tuples(OLD, BATCHES), max_size=4),
    actions=st.lists(ACTIONS, min_size=3, max_size=20),
    last=st.sampled_from(KEYS),
)
def test_any_erasure_leaves_all_other_records_and_no_trace(
    old: list[Any], actions: list[tuple[Any, ...]], last: bytes
) -> None:
    with tempfile.TemporaryDirectory() as folder, a_log(Path(folder), cleanup_policy="compact,delete") as log:
        world = World(log, Path(folder))
        for (magic, codec), keys in old:
            world.old(magic, codec, keys)
        for name, *arguments in [*actions, ("erase", {last})]:
            getattr(world, name)(*arguments)
