"""TieredLog: a partition's log with what its tier has, opened when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from ...storage import LogManager, LogReader, NotALogDirError, TierAddress, TieredFiles
from ..partitions.led_partition import LedPartition

SEGMENTS_MAX = 4  # segments that stay open per log: the index of one may take megabytes


class TierFiles:
    """The tier of a log directory, opened at the first call. For any thread."""

    def __init__(self, address: TierAddress) -> None:
        self._address = address
        self._lock = Lock()  # Guards the files; held while the tier is opened.
        self._opened: TieredFiles | None = None

    def opened(self) -> TieredFiles:
        """Returns the files of the directory and of its tier.

        Raises the errors of ``open_tier``; the next call tries again.
        """
        with self._lock:
            if self._opened is None:
                self._opened = TieredFiles(self._address)
            return self._opened


class TieredLog:
    """A partition's log with its tier. Belongs to one thread at a time."""

    def __init__(self, led: LedPartition, files: Callable[[], TieredFiles]) -> None:
        self._led, self._files = led, files
        self._manager: LogManager | None = None
        self._reader: LogReader | None = None
        self._tiered: range | None = None  # the offsets that were only in the tier when the log was last loaded
        self._used: list[int] = []  # base offsets of the segments that were read last

    def reader(self) -> LogReader:
        """Returns the whole log, loaded again if its start in the tier or in the directory has changed.

        Then a segment may have moved: a reader still has the file that it had before, and its old end.
        """
        tiered = self._led.in_tier
        if self._reader is None:
            files = self._files()
            led, self._manager = self._led, LogManager.open(files.root, filesystem=files)
            self._reader = self._manager.open_reader_of_known(led.topic, led.partition, led.config)
        elif tiered != self._tiered:
            self._reader.refresh()
        self._tiered = tiered
        return self._reader

    def rest(self, used: int) -> None:
        """Closes the segments that were not used lately; ``used``: the base offset of the one that was just read."""
        if self._used[-1:] == [used]:
            return
        self._used = [*(each for each in self._used if each != used), used][-SEGMENTS_MAX:]
        for segment in () if self._reader is None else self._reader.segments:
            if segment.base_offset not in self._used:
                segment.close()

    def last_tiered(self) -> int | None:
        """Returns the last offset that the tier has of the log; None if it has nothing of it."""
        try:
            files = self._files()
        except NotALogDirError:
            if self._led.in_tier is not None:
                raise
            return None  # nothing was copied to the tier yet
        manager = LogManager.open(files.root, filesystem=files)
        return files.last_offset(manager.partition_path(self._led.topic, self._led.partition))

    def close(self) -> None:
        """Closes the files; the next read opens the log again."""
        reader, manager, self._reader, self._manager = self._reader, self._manager, None, None
        if reader is not None:
            reader.close()
        if manager is not None:
            manager.close()
