"""Exception hierarchy of the engine.

Names are Kafka's, with ``Error`` at the end; the number in brackets is Kafka's error code where the protocol has one.

::

    LogStoreError
    ├── InvalidConfigError                    a config key or value (names the key and the nearest known one)   [40]
    │   └── TopicSettingError                 a setting for all topics contradicts one of a topic, which it names
    ├── StorageError                          the disk failed, or an earlier failure made this writer unusable  [56]
    │   ├── SegmentRemovedError               a segment file was removed from an open log: list the directory again
    │   ├── UnfinishedAppendError             the disk failed repeatedly during an append; some of it may be there
    │   ├── LogReplacedError                  another log, or an older copy, is where this process opened its log
    │   └── ObjectStoreError                  an object store refused or did not answer: what was asked may be done
    │       ├── ObjectExistsError             the store says that an object of that name exists
    │       ├── ObjectMissingError            the store says that there is no such object
    │       └── StoreAccessError              the store refuses the credentials, or they lack a right
    ├── LogDirLockedError                     another process holds the directory or the partition
    ├── NotALogDirError                       the path holds no Kafka log
    ├── SnapshotError                         not a snapshot, an incomplete one, or its target path is in use
    ├── ProgressMismatchError                 two records of a writer's progress disagree; names both
    ├── CorruptionError                       bytes that cannot be right; carries path, position and reason
    │   ├── CorruptRecordError                a batch: size, checksum, magic below zero                         [2]
    │   │   └── UnsupportedMagicError         a newer message format: perhaps intact, but not readable here
    │   ├── InvalidRecordError                a record inside a batch whose checksum is right                   [87]
    │   │   ├── DecompressedSizeError         a batch that decompresses to more than the limit
    │   │   └── TableSizeError                batches with more bytes than one table has: decode fewer at once
    │   ├── CorruptIndexError                 an index file: rebuilt and logged, never fatal
    │   ├── CorruptSnapshotError              a producer snapshot: an older one is used instead, never fatal
    │   ├── CorruptCheckpointError            a checkpoint file: rebuilt and reported
    │   ├── MissingSegmentError               offsets between two segments that no file holds
    │   └── ObjectLostError                   an object store lacks an object that the log names                [56]
    ├── InvalidOffsetError                    an index append or a truncation that goes backwards
    ├── SegmentOffsetOverflowError            an offset more than 2^31 - 1 above its segment's base
    ├── OffsetOutOfRangeError                 a read or a deletion outside the log                              [1]
    ├── IncompleteSearchError                 a search could not read a part of a topic; names all such parts
    ├── AppendError                           an append was refused; nothing was written
    │   ├── RecordTooLargeError               a batch above max.message.bytes                                   [10]
    │   ├── RecordBatchTooLargeError          an append above segment.bytes                                     [18]
    │   ├── RecordValidationError             records were refused; lists index and reason of each              [87]
    │   │   └── InvalidTimestampError         records were refused because of their timestamps                  [32]
    │   ├── OffsetsOutOfOrderError            offsets of one append do not increase
    │   ├── UnexpectedAppendOffsetError       replicated batches begin below the log end
    │   ├── UnsupportedForMessageFormatError  the topic's message format has no place for it                    [43]
    │   ├── OutOfOrderSequenceError           a sequence gap                                                    [45]
    │   ├── InvalidProducerEpochError         a producer epoch older than the log has seen: fenced              [47]
    │   ├── InvalidTxnStateError              a plain write in an open transaction, or a marker out of place    [48]
    │   ├── TransactionCoordinatorFencedError a marker from an older coordinator                                [52]
    │   └── GroupChangedError                 another coordinator has stored the group                          [16]
    ├── TransactionError                      a transaction that cannot continue
    │   ├── TransactionRefusedError           the transaction is not ongoing: its writer must stop              [48]
    │   │   └── ProducerFencedError           another coordinator took over its transactional id: stop          [90]
    │   ├── TransactionAbortedError           the transaction was aborted before its commit was decided
    │   └── OutcomeUnknownError               the decision may or may not be on disk: the next start finds out
    ├── UnsupportedCompressionTypeError       a codec the format does not allow                                 [76]
    ├── UnknownTopicOrPartitionError          no such topic or partition in this directory                      [3]
    ├── TopicExistsError                      creating a topic that exists, perhaps with other settings         [36]
    ├── InvalidTopicError                     a name Kafka does not allow, or an internal topic                 [17]
    └── PolicyViolationError                  deleting records of a topic with cleanup.policy=compact only      [44]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Self

EXIT_DAMAGED = 3  # the exit code of jobs and commands that found a damaged log; 1: another failure, 2: wrong usage


class LogStoreError(Exception):
    """The root: ``except LogStoreError`` catches every error that this engine raises on purpose."""


class InvalidConfigError(LogStoreError):
    """An unknown config key, or a value outside its bounds."""


class TopicSettingError(InvalidConfigError):
    """A setting for all topics contradicts a topic's own; ``reason`` is the contradiction, without the topic's name."""

    def __init__(self, topic: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"beside the settings of topic {topic!r}: {reason}")


class StorageError(LogStoreError):
    """The disk refused an operation, now or earlier, and this writer is unusable: reopen the log to recover."""


class SegmentRemovedError(StorageError, FileNotFoundError):
    """Retention, compaction or a person removed a segment of an open log: a reader lists the directory again."""


class UnfinishedAppendError(StorageError):
    """The disk failed repeatedly during an append.

    ``appended`` of its records, the first ones, are in the log; None: it is not known how many.
    """

    def __init__(self, message: str, appended: int | None = None) -> None:
        self.appended = appended
        super().__init__(message)


class LogReplacedError(StorageError):
    """The log that this process opened no longer exists: it was deleted, replaced by another one, or set back.

    Nothing is written there. A process that is started again opens the present log.
    """


class ObjectStoreError(StorageError):
    """An object store refused a request, or did not answer: unless a subclass states more, it may have been done.

    The message has the store's code and the object, and nothing else from the store.
    """


class ObjectExistsError(ObjectStoreError):
    """The store says that an object of that name exists: perhaps this client's own, by a request sent twice."""


class ObjectMissingError(ObjectStoreError, FileNotFoundError):
    """The store says that there is no such object."""


class StoreAccessError(ObjectStoreError):
    """The store refuses the credentials, or they lack a right that the request needs."""


class LogDirLockedError(LogStoreError):
    """Another process, perhaps a running broker, holds the lock that the message names."""


class LockHeldError(LogStoreError):
    """Another process has held a lock for longer than this one waits for it; nothing was done. It may be paused."""


class NotALogDirError(LogStoreError):
    """The path is not a directory that holds Kafka partitions."""


class SnapshotError(LogStoreError):
    """The path has no complete snapshot, or the path for a new snapshot or a restored log is already in use."""


class ProgressMismatchError(LogStoreError):
    """The progress of a writer in the log disagrees with that in a checkpoint or in this process.

    Continuing would skip rows or write them twice. The message names both and what to do.
    """


class CorruptionError(LogStoreError):
    """Bytes that cannot be right.

    ``position`` is the byte in ``path`` at which the damaged item begins. The layer that finds the damage may know
    neither; :meth:`located` fills them in on the way up.
    """

    skipped_offsets: tuple[int, int] | None = None  # first and last, set by a reader that goes on after the damage
    skipped_bytes: int = 0  # as above; 0 if no batch is damaged

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
        """Pickle with path and position, since tasks on a cluster raise it too."""
        return type(self), (self.reason,), {"path": self.path, "position": self.position}

    def located(self, path: str, shift: int = 0) -> Self:
        """Returns this error with ``path``; adds ``shift``, the file position of the buffer that was checked."""
        position = None if self.position is None else self.position + shift
        return type(self)(self.reason, path=path, position=position)


class CorruptRecordError(CorruptionError):
    """A batch whose size, checksum or magic cannot be right."""


class UnsupportedMagicError(CorruptRecordError):
    """A message format newer than this engine: perhaps intact, but not readable here."""


class InvalidRecordError(CorruptionError):
    """A batch with a correct checksum whose records do not decode."""


class DecompressedSizeError(InvalidRecordError):
    """A batch that decompresses to more bytes than its reader allows."""


class TableSizeError(InvalidRecordError):
    """Batches that may all be right, but whose records are more bytes than a table can have: decode fewer at once."""


class CorruptIndexError(CorruptionError):
    """An index file that is misaligned or not sorted."""


class CorruptSnapshotError(CorruptionError):
    """A producer snapshot with a wrong version, length or checksum."""


class CorruptCheckpointError(CorruptionError):
    """A text checkpoint that does not parse."""


class MissingSegmentError(CorruptionError):
    """No file holds the offsets between two neighbouring segments."""


class ObjectLostError(CorruptionError):
    """An object store lacks an object that the newest state of the log names."""


class InvalidOffsetError(LogStoreError):
    """An offset that decreases where it must increase."""


class SegmentOffsetOverflowError(LogStoreError):
    """An offset that its segment cannot hold: more than 2^31 - 1 above the base offset, or below it."""


class OffsetOutOfRangeError(LogStoreError):
    """An offset outside what the log holds."""


class IncompleteSearchError(LogStoreError):
    """A search could not read parts of the logs, which the message names; its other results are right."""


class AppendError(LogStoreError):
    """The append was refused; nothing was written."""


class RecordTooLargeError(AppendError):
    """A batch, perhaps of a single record, is larger than ``max.message.bytes`` or ``segment.bytes``."""


class RecordBatchTooLargeError(AppendError):
    """The batches of one append are together larger than ``segment.bytes``."""


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
    """The offsets in one append do not increase."""


class UnexpectedAppendOffsetError(AppendError):
    """Replicated batches begin below the log end."""


class UnsupportedForMessageFormatError(AppendError):
    """The topic's ``message.format.version`` lacks a field that the records have."""


class OutOfOrderSequenceError(AppendError):
    """A producer's sequence does not follow the last one."""


class InvalidProducerEpochError(AppendError):
    """A producer epoch below the latest one that the log has seen."""


class InvalidTxnStateError(AppendError):
    """A write that does not fit the state of its producer's transaction."""


class GroupChangedError(AppendError):
    """Another coordinator has stored a group since this one read it; nothing was written."""


class TransactionCoordinatorFencedError(AppendError):
    """A marker from an older coordinator."""


class TransactionError(LogStoreError):
    """A transaction that cannot continue as asked."""


class TransactionRefusedError(TransactionError):
    """The transaction is not, or no longer, ongoing; the operation in it was not carried out. The writer must stop."""


class ProducerFencedError(TransactionRefusedError):
    """Another coordinator took over the transactional id or ended its transaction: this one must stop."""


class TransactionAbortedError(TransactionError):
    """The transaction was aborted before its commit was decided: no record becomes visible. Start a new one."""


class OutcomeUnknownError(TransactionError):
    """Writing the decision failed, so it may or may not be on disk.

    Do not abort or retry before the transactional id has been opened again, which completes the decision in the log.
    """


class UnsupportedCompressionTypeError(LogStoreError):
    """A codec that the message format does not allow, or a level outside its bounds."""


class UnknownTopicOrPartitionError(LogStoreError):
    """No such topic or partition in this log directory."""


class TopicExistsError(LogStoreError):
    """The topic exists already."""


class InvalidTopicError(LogStoreError):
    """A topic name that Kafka does not allow."""


class PolicyViolationError(LogStoreError):
    """An operation that the topic's ``cleanup.policy`` forbids."""


def text_of(error: Exception) -> str:
    """Returns the text of an error; that of a system error has the file before the reason, and no number."""
    if isinstance(error, OSError) and not isinstance(error, LogStoreError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@contextmanager
def kept_in(failures: list[LogStoreError] | None) -> Iterator[None]:
    """A context that ends at a LogStoreError and adds it to ``failures``; if ``failures`` is None, raises it."""
    try:
        yield
    except LogStoreError as error:
        if failures is None:
            raise
        failures.append(error)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `` (did you mean 'x'?)``, or an empty text if no name in ``known`` is similar to ``name``."""
    near = nearest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the name in ``known`` that is most similar to ``name`` apart from case, or None."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None
