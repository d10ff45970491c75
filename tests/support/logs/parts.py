"""The parts of a log that is open for writing, over a view of it: without its locks, and without the log itself."""

from __future__ import annotations

from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.tables import Bytes
from pyspark_commitlog.storage.reading.marks import Checkpoints, KeptInMemory
from pyspark_commitlog.storage.reading.reader import LogReader
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.segment.walk import LogContext
from pyspark_commitlog.storage.writing.append_info import AppendInfo
from pyspark_commitlog.storage.writing.bounds import Bounds
from pyspark_commitlog.storage.writing.checks.appends import AppendChecks, CheckedSet
from pyspark_commitlog.storage.writing.checks.batches import analyze
from pyspark_commitlog.storage.writing.durability import Durability, FailStop
from pyspark_commitlog.storage.writing.log_end import LogEnd
from pyspark_commitlog.storage.writing.rolling import Rolling
from pyspark_commitlog.storage.writing.sharing import Sharing
from tests.support.clock import ManualClock
from tests.support.disk.faulty_filesystem import FaultyFileSystem
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.logs.building import NOW_MS, batch, config, open_log

DIRECTORY = "/t-0"


class Parts:
    """What a log consists of, in a directory in memory. ``values`` are there already, a batch each."""

    def __init__(self, *values: bytes, marks: Checkpoints | None = None, **settings: object) -> None:
        self.disk, self.marks = MemoryFileSystem(), marks or KeptInMemory()
        with open_log(DIRECTORY, self.marks, filesystem=self.disk, **settings) as log:
            for value in values:
                log.append(batch(value))
        self.faulty = FaultyFileSystem(self.disk, [])
        context = LogContext(DIRECTORY, config(**settings), ManualClock(NOW_MS), self.faulty, True)
        self.view = LogReader(context, self.marks)
        self.fail_stop = FailStop(context)
        self.durability = Durability(context, self.fail_stop)
        sharing = Sharing(context, self.view)
        self.bounds = Bounds(self.view, self.fail_stop, self.durability, sharing)
        self.rolling = Rolling(self.view, self.fail_stop, self.durability, sharing, self.bounds)
        self.checks = AppendChecks(self.view)
        self.end = LogEnd(self.view, self.fail_stop, self.rolling)
        self.durability.note_synced(self.view.log_end_offset)
        self.rolling.note_snapshot()

    @property
    def bases(self) -> list[int]:
        """The base offsets of the segments."""
        return [segment.base_offset for segment in self.view.segments]

    def check(self, data: Bytes, origin: Origin = Origin.CLIENT) -> CheckedSet:
        """What the log would append of encoded batches."""
        return self.checks.sent(data, analyze(data, origin, self.view.context.config), origin, None)

    def append(self, data: Bytes, origin: Origin = Origin.CLIENT) -> AppendInfo:
        """Checks and writes encoded batches."""
        return self.end.write(self.check(data, origin))

    def append_one(self, *values: bytes, producer_id: int = -1, base_sequence: int = -1) -> AppendInfo:
        """Checks and writes one batch by plain numbers."""
        data = batch(*values, producer_id=producer_id, base_sequence=base_sequence).data
        found, update = self.checks.one(v2.read_header(data))
        return self.end.write_one(found, update, v2.placed(data, found.base_offset, self.view.leader_epoch))
