"""Every error this engine raises, drawn once.

Names are Kafka's, with ``Error`` at the end; the number in brackets is Kafka's error code where the protocol has one.

::

    LogStoreError
    ├── InvalidConfigError                    a config key or value (names the key and the nearest known one)   [40]
    ├── StorageError                          the disk failed, or an earlier failure poisoned this writer       [56]
    │   └── SegmentRemovedError               a file that was there is gone: who reads looks again
    ├── LogDirLockedError                     another process holds the directory or the partition
    ├── NotALogDirError                       the path holds no Kafka log
    ├── SnapshotError                         a snapshot that is none, is not whole, or has no room where it is wanted
    ├── ProgressMismatchError                 two records of how far a writer got that disagree; names both
    ├── CorruptionError                       bytes that cannot be right; carries path, position and reason
    │   ├── CorruptRecordError                a batch: size, checksum, magic below zero                         [2]
    │   │   └── UnsupportedMagicError         a format from the future: not damage, but not readable either
    │   ├── InvalidRecordError                a record inside a batch whose checksum is right                   [87]
    │   ├── CorruptIndexError                 an index file: rebuilt and logged, never fatal
    │   ├── CorruptSnapshotError              a producer snapshot: dropped for an older one, never fatal
    │   ├── CorruptCheckpointError            a checkpoint file: rebuilt and reported
    │   └── MissingSegmentError               offsets between two segments that no file holds
    ├── InvalidOffsetError                    an index append or a truncation that goes backwards
    ├── SegmentOffsetOverflowError            an offset more than 2^31 - 1 above its segment's base
    ├── OffsetOutOfRangeError                 a read or a deletion outside the log                              [1]
    ├── AppendError                           an append that is refused; nothing was written
    │   ├── RecordTooLargeError               a batch above max.message.bytes                                   [10]
    │   ├── RecordBatchTooLargeError          a set above segment.bytes                                         [18]
    │   ├── RecordValidationError             records refused, with index and reason of each                    [87]
    │   │   └── InvalidTimestampError         the same, for their time                                          [32]
    │   ├── OffsetsOutOfOrderError            offsets in a set do not increase
    │   ├── UnexpectedAppendOffsetError       a replicated set begins below the log end
    │   ├── OutOfOrderSequenceError           a sequence gap                                                    [45]
    │   ├── InvalidProducerEpochError         an older epoch than the log has seen: fenced                      [47]
    │   ├── InvalidTxnStateError              a plain write in an open transaction, or a marker out of place    [48]
    │   └── TransactionCoordinatorFencedError a marker of an older coordinator                                  [52]
    ├── TransactionError                      a transaction that cannot go on
    │   ├── TransactionRefusedError           it is not, or no longer, ongoing: its writer stops                 [48]
    │   │   └── ProducerFencedError           another coordinator took its transactional id over: stop          [90]
    │   ├── TransactionAbortedError           it was aborted before the decision: a new one may be tried
    │   └── OutcomeUnknownError               the decision may or may not be on the disk: the next start tells
    ├── UnsupportedCompressionTypeError       a codec the format does not allow                                 [76]
    ├── UnknownTopicOrPartitionError          no such topic or partition in this directory                      [3]
    ├── TopicExistsError                      creating a topic that is there, perhaps with other settings       [36]
    ├── InvalidTopicError                     a name Kafka does not allow, or an internal topic                 [17]
    └── PolicyViolationError                  deleting records of a topic that is only compacted                [44]
"""

from __future__ import annotations

from typing import Self


class LogStoreError(Exception):
    """The root: ``except LogStoreError`` catches everything this engine raises on purpose."""


class InvalidConfigError(LogStoreError):
    """A config key that is not known, or a value outside its bounds."""


class StorageError(LogStoreError):
    """The disk refused an operation, or did so earlier and the writer is poisoned since: reopen the log to recover."""


class SegmentRemovedError(StorageError, FileNotFoundError):
    """A segment left a log that is open, by retention, compaction or hand: a reader looks at the directory again."""


class LogDirLockedError(LogStoreError):
    """Another process, perhaps a running broker, holds the lock named in the message."""


class NotALogDirError(LogStoreError):
    """The path is not a directory that holds Kafka partitions."""


class SnapshotError(LogStoreError):
    """A snapshot that is none or is no longer whole, or a place for one, or for a restored log, that is taken."""


class ProgressMismatchError(LogStoreError):
    """Two records of how far a writer got disagree: the log's and a checkpoint's, or the log's and this process's.

    To go on would leave rows out or write them twice, so the message names both, and what to do.
    """


class CorruptionError(LogStoreError):
    """Bytes that cannot be right.

    ``position`` is the byte in ``path`` at which the damaged thing begins; both may be unknown to the layer that
    finds the damage, and are filled in by :meth:`located` on the way up.
    """

    def __init__(self, reason: str, *, path: str | None = None, position: int | None = None) -> None:
        self.reason = reason
        self.path = path
        self.position = position
        super().__init__(reason, path, position)

    def __str__(self) -> str:
        where = [] if self.path is None else [self.path]
        if self.position is not None:
            where.append(f"position {self.position}")
        return f"{', '.join(where)}: {self.reason}" if where else self.reason

    def __reduce__(self) -> tuple[type[Self], tuple[str], dict[str, object]]:
        """Tasks on a cluster raise it too: pickled, the place goes with it."""
        return type(self), (self.reason,), {"path": self.path, "position": self.position}

    def located(self, path: str, shift: int = 0) -> Self:
        """The same error, in the file ``path``; ``shift`` is where in that file the buffer of the finder began."""
        position = None if self.position is None else self.position + shift
        return type(self)(self.reason, path=path, position=position)


class CorruptRecordError(CorruptionError):
    """A batch whose size, checksum or magic cannot be right."""


class UnsupportedMagicError(CorruptRecordError):
    """A message format newer than this engine: perhaps sound, certainly not readable here."""


class InvalidRecordError(CorruptionError):
    """A batch with a right checksum whose records do not decode."""


class CorruptIndexError(CorruptionError):
    """An index file that is misaligned or not sorted."""


class CorruptSnapshotError(CorruptionError):
    """A producer snapshot with a wrong version, length or checksum."""


class CorruptCheckpointError(CorruptionError):
    """A text checkpoint that does not parse."""


class MissingSegmentError(CorruptionError):
    """No file holds the offsets between two neighbouring segments."""


class InvalidOffsetError(LogStoreError):
    """An offset that goes backwards where it must increase."""


class SegmentOffsetOverflowError(LogStoreError):
    """An offset that its segment cannot hold: more than 2^31 - 1 above the base offset, or below it."""


class OffsetOutOfRangeError(LogStoreError):
    """An offset outside what the log holds."""


class AppendError(LogStoreError):
    """An append that was refused; nothing was written."""


class RecordTooLargeError(AppendError):
    """A batch larger than ``max.message.bytes``, or a record that makes one, or one larger than ``segment.bytes``."""


class RecordBatchTooLargeError(AppendError):
    """A set of batches larger than ``segment.bytes``."""


class RecordValidationError(AppendError):
    """Records that the topic refuses.

    ``record_errors`` lists (index in the append, reason); the append failed as a whole.
    """

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(message)


class InvalidTimestampError(RecordValidationError):
    """Records whose timestamp is outside the topic's limits."""


class OffsetsOutOfOrderError(AppendError):
    """Offsets within one set do not increase."""


class UnexpectedAppendOffsetError(AppendError):
    """A replicated set begins below the log end."""


class OutOfOrderSequenceError(AppendError):
    """A producer's sequence does not follow the last one."""


class InvalidProducerEpochError(AppendError):
    """A producer epoch below the one the log has seen."""


class InvalidTxnStateError(AppendError):
    """A write that does not fit the state of its producer's transaction."""


class TransactionCoordinatorFencedError(AppendError):
    """A marker written by an older coordinator."""


class TransactionError(LogStoreError):
    """A transaction that cannot go on as asked."""


class TransactionRefusedError(TransactionError):
    """The transaction is not ongoing, or no longer: what was to be done in it was not. Whoever meets this stops."""


class ProducerFencedError(TransactionRefusedError):
    """Another coordinator took the transactional id over, or ended its transaction: this one must not go on."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted before it was decided: none of it will be seen, and a new one may be tried."""


class OutcomeUnknownError(TransactionError):
    """Writing the decision failed, so it may be on the disk or not.

    Nothing may be aborted or tried again before the transactional id was opened anew, which carries out what is there.
    """


class UnsupportedCompressionTypeError(LogStoreError):
    """A codec that the message format does not allow, or a level outside its bounds."""


class UnknownTopicOrPartitionError(LogStoreError):
    """No such topic or partition in this log directory."""


class TopicExistsError(LogStoreError):
    """The topic is there already."""


class InvalidTopicError(LogStoreError):
    """A topic name that Kafka does not allow."""


class PolicyViolationError(LogStoreError):
    """An operation that the topic's ``cleanup.policy`` forbids."""
