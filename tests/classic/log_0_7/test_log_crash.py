"""Power cuts at every change of a log of 0.7: what was synced is there, and nothing that was never appended."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark_commitlog.classic.log_0_7.directory import PositionLogDirectory
from pyspark_commitlog.classic.log_0_7.entries import encode_set, messages_in
from pyspark_commitlog.classic.log_0_7.reader import PositionLogReader
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.disk.power_cuts import Effort

SETTINGS = PositionLogSettings(file_size=600, flush_interval=4, retention_size=2000)
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)
SETS = [encode_set([bytes([65 + n]) * (60 + 11 * n), b"", bytes([97 + n]) * 30], CODECS[n % 3]) for n in range(12)]
DIRECTORY = "/log/t-0"


@dataclass
class Writer:
    """Appends the sets, and notes what was synced at least."""

    synced: int = 0
    appended: bytearray = field(default_factory=bytearray)

    def run(self, disk: MemoryFileSystem) -> None:
        self.__init__()  # type: ignore[misc]  a new run
        with PositionLogDirectory("/log", SETTINGS, filesystem=disk, clock=ManualClock()) as logs:
            for number, data in enumerate(SETS):
                log = logs.log_to_append("t", 0)
                self.appended += data
                log.append(data)
                if number % 5 == 4:
                    log.sync()
                if number % 4 == 3:
                    logs.retain()
                self.synced = log.end
        self.synced = len(self.appended)


def read(disk: MemoryFileSystem, start: int, end: int) -> bytes:
    """The bytes of the log, from its files."""
    reader = PositionLogReader(DIRECTORY, disk)
    assert reader.segments[0][0] <= start
    return b"".join(
        bytes(disk.open(f"{DIRECTORY}/{first:020}.kafka", "read").read(0, last - first))
        for first, last in reader.segments
    )[start - reader.start : end - reader.start]


def test_after_a_power_cut_the_log_has_what_was_synced_and_goes_on() -> None:
    writer = Writer()
    tried = 0
    for where, disk in Effort(every=1, seeds=2, with_kills=True).cut(writer.run, MemoryFileSystem()):
        tried += 1
        with PositionLogDirectory("/log", SETTINGS, filesystem=disk, clock=ManualClock()) as logs:
            log = logs.log("t", 0)
            if log is None:
                assert not writer.synced, where
                continue
            assert log.end >= writer.synced, where
            assert read(disk, log.start, log.end) == writer.appended[log.start : log.end], where
            end = log.end
            log.append(SETS[0])
            log.sync()
            assert log.end == end + len(SETS[0]), where
        assert list(messages_in(read(disk, end, end + len(SETS[0])))), where
    assert tried > 50
