"""Where a mirror writes: the interface that clusters and log directories share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from ...storage import Codec, EncodedBatches, TopicPartition
from ..progress import NextOffset
from ..sources.port import SourcePartition

Batches = Mapping[TopicPartition, EncodedBatches]
Progress = Mapping[SourcePartition, NextOffset]


class Taking(NamedTuple):
    """An existing topic of the target."""

    partitions: int
    batch_size_max: int  # bytes of a batch with its header
    codec: Codec | None = None  # the only one that it stores; None: any, or the brokers encode again


class TargetWriter(Protocol):
    """Writes the records of one source; for one thread at a time."""

    def progress(self, partitions: Iterable[SourcePartition]) -> Progress:
        """Returns the progress of partitions of the source, as read when this writer was opened.

        Partitions that were never mirrored are left out.
        """

    def prepare(self, topic: str, partitions: int, configs: Mapping[str, str], *, grow: bool) -> Taking:
        """Creates a topic if it is missing, with these partitions and settings; returns the topic that exists then.

        With ``grow``, adds partitions to a topic that has fewer.
        """

    def write(self, batches: Batches, progress: Progress) -> None:
        """Writes records and the resulting progress; both are durable on return.

        They are one transaction if the target has transactions. Otherwise the progress follows the records.

        After an error, close this writer and open another one, whose progress shows whether the transaction was
        committed.
        """

    def close(self) -> None:
        """Closes logs and connections."""


class Targets(Protocol):
    """Opens writers, in any thread."""

    def open(self, group: str) -> TargetWriter:
        """Takes over the mirror of a group.id, which ends its last transaction."""
