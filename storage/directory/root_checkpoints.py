"""RootCheckpoints: reads and writes one partition's entries in the checkpoints at the root of its log directory."""

from __future__ import annotations

from dataclasses import dataclass

from ..format.files import file_names
from ..format.files.file_names import TopicPartition
from ..reading.marks import Marks
from ..segment.joining import Holes
from .log_directory import LogDirectory
from .remote_tier import remote_offsets


@dataclass(frozen=True)
class RootCheckpoints:
    """The checkpoint entries of one partition in a log directory: see :class:`.marks.Checkpoints`."""

    log_directory: LogDirectory
    partition: TopicPartition

    def read(self) -> Marks:
        return self.log_directory.marks(self.partition)

    def write(self, marks: Marks) -> None:
        self.log_directory.write_marks({self.partition: marks})

    def sync(self) -> None:
        self.log_directory.filesystem.sync_directory(self.log_directory.directory)

    def holes(self) -> Holes:
        return self.log_directory.holes(self.partition)

    def note_holes(self) -> None:
        self.log_directory.note_holes(self.partition)

    def note_start(self, log_start_offset: int) -> None:
        self.log_directory.note_log_start(self.partition, log_start_offset)

    def notes_start(self) -> bool:
        return self.partition in self.log_directory.offsets(file_names.LOG_START_OFFSET_CHECKPOINT)

    def remote_below(self, first_offset: int) -> range | None:
        return remote_offsets(self.log_directory, {self.partition: first_offset}).get(self.partition)
