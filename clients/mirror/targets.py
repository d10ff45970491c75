"""Where a mirror writes: what a cluster and a log directory have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ...storage import Codec, EncodedBatches, TopicPartition

Batches = Mapping[TopicPartition, EncodedBatches]
Progress = Mapping[TopicPartition, int]  # the next offset in each partition of the source


class Taking(NamedTuple):
    """A topic of the target as it is."""

    partitions: int
    batch_size_max: int  # bytes of a batch with its header
    codec: Codec | None = None  # the only one that it stores; None: any, or the brokers encode again


class TargetWriter(Protocol):
    """Writes what a mirror reads from one source; for one thread at a time."""

    @property
    def progress(self) -> Progress:
        """How far the source is mirrored; read when this was opened."""

    def prepare(self, topic: str, partitions: int, configs: Mapping[str, str], *, grow: bool) -> Taking:
        """Creates a topic if it is missing, with these partitions and settings, and returns it as it is.

        With ``grow``, adds partitions to a topic that has less.
        """

    def write(self, batches: Batches, progress: Progress) -> None:
        """Writes records and the progress that they make in one transaction, committed on return.

        After an error, close this writer: only another one knows whether the transaction was committed.
        """

    def close(self) -> None:
        """Closes logs and connections."""


class Targets(Protocol):
    """What opens writers, in any thread."""

    def open(self, group: str) -> TargetWriter:
        """Takes over the mirror of a group.id, and so ends its last transaction."""
