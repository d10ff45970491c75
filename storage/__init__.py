"""Kafka's log as a Python module that knows nothing of Spark, sockets or people. Its public names are listed here.

They are loaded when first used (PEP 562): a program that lists topics must answer at once, so it must not import numba,
a codec or Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clock import Clock as Clock
    from .clock import SystemClock as SystemClock
    from .clock import instant as instant
    from .config import CleanerConfig as CleanerConfig
    from .config import Key as Key
    from .config import LogConfig as LogConfig
    from .config import keys_of as keys_of
    from .directory.admin import DeletedRecords as DeletedRecords
    from .directory.admin import add_partitions as add_partitions
    from .directory.admin import alter_configs as alter_configs
    from .directory.admin import check_deletable as check_deletable
    from .directory.admin import check_whole as check_whole
    from .directory.admin import delete_records as delete_records
    from .directory.admin import delete_topic as delete_topic
    from .directory.admin import partition_topic_id as partition_topic_id
    from .directory.admin import topic_id as topic_id
    from .directory.admin import topic_size as topic_size
    from .directory.fs_check import Finding as Finding
    from .directory.fs_check import Verdict as Verdict
    from .directory.fs_check import check_filesystem as check_filesystem
    from .directory.manager import LogManager as LogManager
    from .directory.protected_topics import INTERNAL_TOPICS as INTERNAL_TOPICS
    from .directory.protected_topics import check_takes_records as check_takes_records
    from .directory.snapshot import LOG_FOLDER as LOG_FOLDER
    from .directory.snapshot import Snapshot as Snapshot
    from .directory.snapshot import read_snapshot as read_snapshot
    from .directory.snapshot import restore_snapshot as restore_snapshot
    from .directory.snapshot import take_snapshot as take_snapshot
    from .directory.topics_file import TopicDescription as TopicDescription
    from .dump import DumpFindings as DumpFindings
    from .dump import DumpOptions as DumpOptions
    from .dump import PayloadDecoder as PayloadDecoder
    from .dump import dump_file as dump_file
    from .errors import EXIT_DAMAGED as EXIT_DAMAGED
    from .errors import AppendError as AppendError
    from .errors import CorruptionError as CorruptionError
    from .errors import CorruptRecordError as CorruptRecordError
    from .errors import InvalidConfigError as InvalidConfigError
    from .errors import InvalidRecordError as InvalidRecordError
    from .errors import InvalidTimestampError as InvalidTimestampError
    from .errors import InvalidTopicError as InvalidTopicError
    from .errors import LogDirLockedError as LogDirLockedError
    from .errors import LogStoreError as LogStoreError
    from .errors import MissingSegmentError as MissingSegmentError
    from .errors import NotALogDirError as NotALogDirError
    from .errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from .errors import OutcomeUnknownError as OutcomeUnknownError
    from .errors import ProducerFencedError as ProducerFencedError
    from .errors import ProgressMismatchError as ProgressMismatchError
    from .errors import RecordTooLargeError as RecordTooLargeError
    from .errors import RecordValidationError as RecordValidationError
    from .errors import SnapshotError as SnapshotError
    from .errors import StorageError as StorageError
    from .errors import TopicExistsError as TopicExistsError
    from .errors import TransactionAbortedError as TransactionAbortedError
    from .errors import TransactionError as TransactionError
    from .errors import TransactionRefusedError as TransactionRefusedError
    from .errors import UnknownTopicOrPartitionError as UnknownTopicOrPartitionError
    from .errors import did_you_mean as did_you_mean
    from .filesystem import File as File
    from .filesystem import FileSystem as FileSystem
    from .filesystem import LocalFileSystem as LocalFileSystem
    from .filesystem import parent_of as parent_of
    from .filesystem import read_file as read_file
    from .filesystem import this_process as this_process
    from .filesystem import write_atomically as write_atomically
    from .format.constants import Codec as Codec
    from .format.constants import TimestampType as TimestampType
    from .format.internal.internal_topics import TRANSACTION_STATE_TOPIC as TRANSACTION_STATE_TOPIC
    from .format.internal.internal_topics import OffsetCommitKey as OffsetCommitKey
    from .format.internal.internal_topics import OffsetCommitValue as OffsetCommitValue
    from .format.internal.internal_topics import TransactionLogValue as TransactionLogValue
    from .format.internal.internal_topics import decode_group_key as decode_group_key
    from .format.internal.internal_topics import decode_transaction_key as decode_transaction_key
    from .format.tables import BatchHeaders as BatchHeaders
    from .format.tables import BinaryColumn as BinaryColumn
    from .format.tables import HeadersColumn as HeadersColumn
    from .format.tables import Records as Records
    from .format.v2 import BatchFields as BatchFields
    from .format.v2 import Divided as Divided
    from .format.v2 import EncodedBatches as EncodedBatches
    from .format.v2 import ShareEncoder as ShareEncoder
    from .format.v2 import encode_batches as encode_batches
    from .format.warm_up import load_kernels as load_kernels
    from .groups.lag import GroupLags as GroupLags
    from .groups.lag import LogFigures as LogFigures
    from .groups.lag import LogLooks as LogLooks
    from .groups.lag import PartitionLag as PartitionLag
    from .groups.lag import lag_ms as lag_ms
    from .groups.lag import log_figures as log_figures
    from .groups.offsets import SINK_PREFIX as SINK_PREFIX
    from .groups.offsets import CommittedOffset as CommittedOffset
    from .groups.offsets import GroupOffsets as GroupOffsets
    from .groups.states import GroupDescription as GroupDescription
    from .groups.states import GroupMember as GroupMember
    from .kernels.murmur2 import partitions_of as partitions_of
    from .maintenance import ConfigOverrides as ConfigOverrides
    from .maintenance import MaintenanceRun as MaintenanceRun
    from .maintenance import OutcomeStatus as OutcomeStatus
    from .maintenance import PartitionOutcome as PartitionOutcome
    from .maintenance import Runner as Runner
    from .maintenance import Selection as Selection
    from .maintenance import Tally as Tally
    from .maintenance import compact_partitions as compact_partitions
    from .maintenance import in_this_process as in_this_process
    from .maintenance import rebuild_partitions as rebuild_partitions
    from .maintenance import recover_partitions as recover_partitions
    from .maintenance import retain_partitions as retain_partitions
    from .maintenance import select_partitions as select_partitions
    from .maintenance import verify_partitions as verify_partitions
    from .maintenance import work_of as work_of
    from .maintenance.describe import PartitionDescription as PartitionDescription
    from .maintenance.describe import describe_partition as describe_partition
    from .paths import local_path as local_path
    from .prefetch import gathered as gathered
    from .reading.damaged import salvaged_records as salvaged_records
    from .reading.fetch import ALL_TIMES as ALL_TIMES
    from .reading.fetch import FetchData as FetchData
    from .reading.fetch import Timespan as Timespan
    from .reading.reader import Isolation as Isolation
    from .reading.reader import LogReader as LogReader
    from .reading.reader import Marks as Marks
    from .reading.reader import SegmentDescription as SegmentDescription
    from .reading.watcher import LogWatcher as LogWatcher
    from .recovery.producer_state import Origin as Origin
    from .retention import RetentionOptions as RetentionOptions
    from .retention import RetentionPolicy as RetentionPolicy
    from .retention import RetentionReport as RetentionReport
    from .retention import SegmentFate as SegmentFate
    from .retention import preview_retention as preview_retention
    from .retention import retain as retain
    from .segment.reader import OffsetAndTimestamp as OffsetAndTimestamp
    from .text import is_secret as is_secret
    from .text import masked as masked
    from .text import parse_instant as parse_instant
    from .text import parse_names as parse_names
    from .text import parse_pairs as parse_pairs
    from .transactions import TRANSACTION_TIMEOUT_MS as TRANSACTION_TIMEOUT_MS
    from .transactions import HoldingTransaction as HoldingTransaction
    from .transactions import IdempotentProducer as IdempotentProducer
    from .transactions import OpenPartition as OpenPartition
    from .transactions import OpenTransaction as OpenTransaction
    from .transactions import Resolution as Resolution
    from .transactions import ResolvedTransaction as ResolvedTransaction
    from .transactions import Transaction as Transaction
    from .transactions import TransactionalWriter as TransactionalWriter
    from .transactions import TransactionCoordinator as TransactionCoordinator
    from .transactions import TransactionPart as TransactionPart
    from .transactions import TransactionStates as TransactionStates
    from .transactions import abort_transaction as abort_transaction
    from .transactions import check_transactional_id as check_transactional_id
    from .transactions import expire_transactional_ids as expire_transactional_ids
    from .transactions import find_hanging as find_hanging
    from .transactions import holding_transaction as holding_transaction
    from .transactions import open_transactions as open_transactions
    from .transactions import resolve_dead_transactions as resolve_dead_transactions
    from .writing.log import AppendInfo as AppendInfo
    from .writing.log import Log as Log
    from .writing.record_checks import Compression as Compression
    from .writing.record_checks import Refused as Refused
    from .writing.record_checks import bytes_in_batch as bytes_in_batch
    from .writing.record_checks import find_refused as find_refused
    from .writing.record_checks import target_compression as target_compression
    from .writing.record_checks import validate_columns as validate_columns
    from .writing.replica import append_fetched as append_fetched
    from .writing.replica import begin_at as begin_at
    from .writing.replica import fetched_records as fetched_records
    from .writing.replica import producer_batches as producer_batches

_NAMES = {  # by module
    ".clock": "Clock SystemClock instant",
    ".config": "CleanerConfig Key LogConfig keys_of",
    ".directory.admin": (
        "DeletedRecords add_partitions alter_configs check_deletable check_whole delete_records delete_topic "
        "partition_topic_id topic_id topic_size "
    ),
    ".directory.fs_check": "Finding Verdict check_filesystem",
    ".directory.manager": "LogManager",
    ".directory.protected_topics": "INTERNAL_TOPICS check_takes_records",
    ".directory.snapshot": "LOG_FOLDER Snapshot read_snapshot restore_snapshot take_snapshot",
    ".directory.topics_file": "TopicDescription",
    ".dump": "DumpFindings DumpOptions PayloadDecoder dump_file",
    ".errors": (
        "AppendError CorruptRecordError CorruptionError EXIT_DAMAGED InvalidConfigError InvalidRecordError "
        "InvalidTimestampError InvalidTopicError LogDirLockedError LogStoreError MissingSegmentError "
        "NotALogDirError OffsetOutOfRangeError OutcomeUnknownError ProducerFencedError ProgressMismatchError "
        "RecordTooLargeError RecordValidationError SnapshotError StorageError TopicExistsError "
        "TransactionAbortedError TransactionError TransactionRefusedError UnknownTopicOrPartitionError "
        "did_you_mean "
    ),
    ".filesystem": "File FileSystem LocalFileSystem parent_of read_file this_process write_atomically",
    ".format.constants": "Codec TimestampType",
    ".format.internal.internal_topics": (
        "OffsetCommitKey OffsetCommitValue TRANSACTION_STATE_TOPIC TransactionLogValue decode_group_key "
        "decode_transaction_key "
    ),
    ".format.tables": "BatchHeaders BinaryColumn HeadersColumn Records",
    ".format.v2": "BatchFields Divided EncodedBatches ShareEncoder encode_batches",
    ".format.warm_up": "load_kernels",
    ".groups.lag": "GroupLags LogFigures LogLooks PartitionLag lag_ms log_figures",
    ".groups.offsets": "CommittedOffset GroupOffsets SINK_PREFIX",
    ".groups.states": "GroupDescription GroupMember",
    ".kernels.murmur2": "partitions_of",
    ".maintenance": (
        "ConfigOverrides MaintenanceRun OutcomeStatus PartitionOutcome Runner Selection Tally "
        "compact_partitions in_this_process rebuild_partitions recover_partitions retain_partitions "
        "select_partitions verify_partitions work_of "
    ),
    ".maintenance.describe": "PartitionDescription describe_partition",
    ".paths": "local_path",
    ".prefetch": "gathered",
    ".reading.damaged": "salvaged_records",
    ".reading.fetch": "ALL_TIMES FetchData Timespan",
    ".reading.reader": "Isolation LogReader Marks SegmentDescription",
    ".reading.watcher": "LogWatcher",
    ".recovery.producer_state": "Origin",
    ".retention": "RetentionOptions RetentionPolicy RetentionReport SegmentFate preview_retention retain",
    ".segment.reader": "OffsetAndTimestamp",
    ".text": "is_secret masked parse_instant parse_names parse_pairs",
    ".transactions": (
        "HoldingTransaction IdempotentProducer OpenPartition OpenTransaction Resolution ResolvedTransaction "
        "TRANSACTION_TIMEOUT_MS Transaction TransactionCoordinator TransactionPart TransactionStates "
        "TransactionalWriter abort_transaction check_transactional_id expire_transactional_ids find_hanging "
        "holding_transaction open_transactions resolve_dead_transactions "
    ),
    ".writing.log": "AppendInfo Log",
    ".writing.record_checks": "Compression Refused bytes_in_batch find_refused target_compression validate_columns",
    ".writing.replica": "append_fetched begin_at fetched_records producer_batches",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)  # noqa: PLE0605  the names above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
