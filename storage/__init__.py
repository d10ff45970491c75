"""Kafka's log as a Python package that depends on neither Spark nor sockets nor a command line.

Its public names are listed here. They are loaded when first used (PEP 562): a program that lists topics must answer at
once, so it must not import numba, a codec or Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .backup.checking import verify_backup as verify_backup
    from .backup.cuts import Cut as Cut, find_cut as find_cut, is_backup as is_backup, list_cuts as list_cuts
    from .backup.encryption import BackupKey as BackupKey, unlock_backup as unlock_backup
    from .backup.keeping import KeepRule as KeepRule, prune_backup as prune_backup
    from .backup.places import BackupPlace as BackupPlace, open_backup as open_backup
    from .backup.restoring import (
        check_restorable_topics as check_restorable_topics,
        opened_without_records as opened_without_records,
        restore_backup as restore_backup,
        restore_topics as restore_topics,
    )
    from .backup.taking import take_backup as take_backup
    from .bucket.clients.appends import ClientBatch as ClientBatch, append_batches as append_batches
    from .bucket.clients.transactions import ClientTransactions as ClientTransactions, give_up as give_up
    from .bucket.commit_log import CommitLog as CommitLog
    from .bucket.commits.commit import (
        ClientTransaction as ClientTransaction,
        DataChange as DataChange,
        GroupOffset as GroupOffset,
    )
    from .bucket.files.filesystem import open_files as open_files
    from .bucket.proposals import (
        Claim as Claim,
        StagedWrite as StagedWrite,
        claim_app as claim_app,
        commit_write as commit_write,
    )
    from .bucket.staging import (
        STAGED_BYTES_MAX as STAGED_BYTES_MAX,
        Staged as Staged,
        StagedTopic as StagedTopic,
        Stager as Stager,
        combined as combined,
    )
    from .bucket.stores.port import ObjectStore as ObjectStore
    from .bucket.stores.probe import check_store as check_store
    from .bucket.stores.remote import open_store as open_store
    from .bucket.topics import ensure_topic as ensure_topic
    from .bucket.upkeep import raise_log_start as raise_log_start
    from .bytes_read import counting_reads as counting_reads
    from .classes import Option as Option, create_by_name as create_by_name, number_or_text as number_or_text
    from .clock import Clock as Clock, SystemClock as SystemClock, instant as instant, when_due as when_due
    from .config import (
        ANYTHING as ANYTHING,
        BOOLEAN as BOOLEAN,
        INT as INT,
        LIST as LIST,
        LONG as LONG,
        STRING as STRING,
        Between as Between,
        CleanerConfig as CleanerConfig,
        Key as Key,
        LogConfig as LogConfig,
        OneOf as OneOf,
        keys_of as keys_of,
    )
    from .directory.admin import (
        DeletedRecords as DeletedRecords,
        TopicIds as TopicIds,
        add_partitions as add_partitions,
        alter_configs as alter_configs,
        check_deletable as check_deletable,
        check_whole as check_whole,
        delete_records as delete_records,
        delete_topic as delete_topic,
        find_made_again as find_made_again,
        made_again as made_again,
        partition_topic_id as partition_topic_id,
        topic_id as topic_id,
        topic_ids as topic_ids,
        topic_size as topic_size,
    )
    from .directory.directory_settings import (
        BROKER_KEYS as BROKER_KEYS,
        alter_broker_settings as alter_broker_settings,
        alter_own_settings as alter_own_settings,
    )
    from .directory.fs_check import check_filesystem as check_filesystem
    from .directory.given_settings import (
        DescribedSetting as DescribedSetting,
        described_settings as described_settings,
    )
    from .directory.log_directory import ROOT_LOCK_FILE as ROOT_LOCK_FILE, TOPICS_FILE as TOPICS_FILE
    from .directory.manager import LogManager as LogManager
    from .directory.protected_topics import (
        COORDINATOR_TOPICS as COORDINATOR_TOPICS,
        INTERNAL_TOPICS as INTERNAL_TOPICS,
        check_takes_records as check_takes_records,
    )
    from .directory.remote_tier import remote_offsets as remote_offsets
    from .directory.snapshots.building import check_outside as check_outside
    from .directory.snapshots.manifest import LOG_FOLDER as LOG_FOLDER, Snapshot as Snapshot
    from .directory.snapshots.restoring import read_snapshot as read_snapshot
    from .directory.topics_file import Owner as Owner, TopicDescription as TopicDescription, TopicsFile as TopicsFile
    from .dump.one_file import dump_file as dump_file
    from .dump.options import DumpFindings as DumpFindings, DumpOptions as DumpOptions, PayloadDecoder as PayloadDecoder
    from .erasure.certificate import (
        Erasure as Erasure,
        ErasureClaim as ErasureClaim,
        certificate_name as certificate_name,
    )
    from .erasure.choosing import Chooser as Chooser, RecordChoice as RecordChoice
    from .erasure.keys import KEY_FORMS as KEY_FORMS, AskedKeys as AskedKeys
    from .erasure.operation import (
        check_erased_partitions as check_erased_partitions,
        erase_partitions as erase_partitions,
    )
    from .errors import (
        EXIT_DAMAGED as EXIT_DAMAGED,
        AppendError as AppendError,
        CorruptionError as CorruptionError,
        CorruptRecordError as CorruptRecordError,
        DecompressedSizeError as DecompressedSizeError,
        GroupChangedError as GroupChangedError,
        IncompleteSearchError as IncompleteSearchError,
        InvalidConfigError as InvalidConfigError,
        InvalidOffsetError as InvalidOffsetError,
        InvalidProducerEpochError as InvalidProducerEpochError,
        InvalidRecordError as InvalidRecordError,
        InvalidTimestampError as InvalidTimestampError,
        InvalidTopicError as InvalidTopicError,
        InvalidTxnStateError as InvalidTxnStateError,
        LockHeldError as LockHeldError,
        LogDirLockedError as LogDirLockedError,
        LogStoreError as LogStoreError,
        MissingSegmentError as MissingSegmentError,
        NotALogDirError as NotALogDirError,
        ObjectStoreError as ObjectStoreError,
        OffsetOutOfRangeError as OffsetOutOfRangeError,
        OutcomeUnknownError as OutcomeUnknownError,
        OutOfOrderSequenceError as OutOfOrderSequenceError,
        PolicyViolationError as PolicyViolationError,
        ProducerFencedError as ProducerFencedError,
        ProgressMismatchError as ProgressMismatchError,
        RecordBatchTooLargeError as RecordBatchTooLargeError,
        RecordTooLargeError as RecordTooLargeError,
        RecordValidationError as RecordValidationError,
        SnapshotError as SnapshotError,
        StorageError as StorageError,
        TopicExistsError as TopicExistsError,
        TopicSettingError as TopicSettingError,
        TransactionAbortedError as TransactionAbortedError,
        TransactionCoordinatorFencedError as TransactionCoordinatorFencedError,
        TransactionError as TransactionError,
        TransactionRefusedError as TransactionRefusedError,
        UnfinishedAppendError as UnfinishedAppendError,
        UnknownTopicOrPartitionError as UnknownTopicOrPartitionError,
        UnsupportedCompressionTypeError as UnsupportedCompressionTypeError,
        UnsupportedForMessageFormatError as UnsupportedForMessageFormatError,
        did_you_mean as did_you_mean,
        text_of as text_of,
    )
    from .extras import MissingExtraError as MissingExtraError, needs_extra as needs_extra
    from .file_times import offsets_before as offsets_before
    from .filesystem.holders import lock_holders as lock_holders
    from .filesystem.local import LocalFileSystem as LocalFileSystem
    from .filesystem.locks import this_process as this_process
    from .filesystem.operations import (
        parent_of as parent_of,
        read_file as read_file,
        write_atomically as write_atomically,
    )
    from .filesystem.port import File as File, FileSystem as FileSystem, Lock as Lock
    from .filesystem.temporary import temporary_folder as temporary_folder
    from .filtering.partitions import filter_partitions as filter_partitions
    from .finding.bounds import Bounds as Bounds
    from .finding.conditions import Condition as Condition
    from .finding.keys import KeyChoice as KeyChoice, partitions_of_keys as partitions_of_keys
    from .finding.partition_search import Unsearched as Unsearched
    from .finding.search import FoundRecords as FoundRecords, Search as Search
    from .format.batch_sets import BatchSet as BatchSet
    from .format.constants import Codec as Codec, TimestampType as TimestampType
    from .format.down_conversion import (
        begins_whole as begins_whole,
        to_message_set as to_message_set,
        to_older_format as to_older_format,
    )
    from .format.files.checkpoints import decode_meta_properties as decode_meta_properties, encode_id as encode_id
    from .format.files.file_names import (
        LOG_START_OFFSET_CHECKPOINT as LOG_START_OFFSET_CHECKPOINT,
        META_PROPERTIES_FILE as META_PROPERTIES_FILE,
        TOPIC_LENGTH_MAX as TOPIC_LENGTH_MAX,
        TopicPartition as TopicPartition,
        check_topic_name as check_topic_name,
    )
    from .format.internal.consumer_protocol import (
        Assignment as Assignment,
        Subscription as Subscription,
        consumer_protocol_version as consumer_protocol_version,
        decode_subscription as decode_subscription,
        decode_whole_assignment as decode_whole_assignment,
        decode_whole_subscription as decode_whole_subscription,
        encode_assignment as encode_assignment,
    )
    from .format.internal.group_records import (
        TOMBSTONE_ORDER as TOMBSTONE_ORDER,
        GroupRecordKey as GroupRecordKey,
        GroupRecordKind as GroupRecordKind,
        decode_record as decode_record,
        encode_record as encode_record,
    )
    from .format.internal.internal_topics import (
        CONSUMER as CONSUMER,
        GROUP_METADATA_TOPIC as GROUP_METADATA_TOPIC,
        REMOTE_LOG_METADATA_TOPIC as REMOTE_LOG_METADATA_TOPIC,
        TRANSACTION_STATE_TOPIC as TRANSACTION_STATE_TOPIC,
        GroupMetadataKey as GroupMetadataKey,
        GroupMetadataValue as GroupMetadataValue,
        MemberMetadata as MemberMetadata,
        OffsetCommitKey as OffsetCommitKey,
        OffsetCommitValue as OffsetCommitValue,
        TopicPartitions as TopicPartitions,
        TransactionLogValue as TransactionLogValue,
        TransactionState as TransactionState,
        decode_group_key as decode_group_key,
        decode_transaction_key as decode_transaction_key,
        positive_hash as positive_hash,
        string_hash as string_hash,
    )
    from .format.tables import (
        BatchHeaders as BatchHeaders,
        BinaryColumn as BinaryColumn,
        HeadersColumn as HeadersColumn,
        Records as Records,
    )
    from .format.v2 import (
        BatchFields as BatchFields,
        Divided as Divided,
        EncodedBatches as EncodedBatches,
        ShareEncoder as ShareEncoder,
        encode_batches as encode_batches,
    )
    from .format.varints import unsigned_varint as unsigned_varint
    from .format.warm_up import load_kernels as load_kernels, load_kernels_beside as load_kernels_beside
    from .groups.bucket_groups import BucketGroups as BucketGroups
    from .groups.coordinated import CoordinatedGroups as CoordinatedGroups
    from .groups.coordinator_port import (
        GroupChange as GroupChange,
        GroupFence as GroupFence,
        GroupRecords as GroupRecords,
        ReadFailures as ReadFailures,
        TransactionalOffsets as TransactionalOffsets,
    )
    from .groups.in_use import GroupsInUse as GroupsInUse
    from .groups.lag import (
        GroupLags as GroupLags,
        LogFigures as LogFigures,
        LogLooks as LogLooks,
        PartitionLag as PartitionLag,
        ShareLag as ShareLag,
        lag_ms as lag_ms,
        log_figures as log_figures,
    )
    from .groups.offsets import (
        CommittedOffset as CommittedOffset,
        GroupKey as GroupKey,
        GroupOffsets as GroupOffsets,
        GroupValue as GroupValue,
    )
    from .groups.states import GroupDescription as GroupDescription, GroupMember as GroupMember
    from .kernels.loading import are_being_compiled as are_being_compiled
    from .kernels.murmur2 import partitions_of as partitions_of
    from .kernels.produce.tables import (
        Found as Found,
        FoundBatch as FoundBatch,
        FoundConnection as FoundConnection,
        FoundFrame as FoundFrame,
        ProduceTables as ProduceTables,
    )
    from .log_lines import LineFormatter as LineFormatter, log_to_stderr as log_to_stderr
    from .maintenance.describe import (
        PartitionDescription as PartitionDescription,
        TopicSummary as TopicSummary,
        describe_partition as describe_partition,
        describe_topics as describe_topics,
    )
    from .maintenance.flags import MAINTENANCE_FLAGS as MAINTENANCE_FLAGS, Flag as Flag
    from .maintenance.outcome import (
        OutcomeStatus as OutcomeStatus,
        PartitionOutcome as PartitionOutcome,
        Tally as Tally,
    )
    from .maintenance.partitions import (
        Operation as Operation,
        ReadsLog as ReadsLog,
        compact_partitions as compact_partitions,
        in_this_process as in_this_process,
        rebuild_partitions as rebuild_partitions,
        recover_partitions as recover_partitions,
        retain_partitions as retain_partitions,
        verify_partitions as verify_partitions,
    )
    from .maintenance.retain import NextOffsets as NextOffsets, TablesKept as TablesKept, no_tables as no_tables
    from .maintenance.run import (
        ConfigOverrides as ConfigOverrides,
        MaintenanceRun as MaintenanceRun,
        Runner as Runner,
        describe_holder as describe_holder,
    )
    from .maintenance.selecting import Selection as Selection, select_partitions as select_partitions
    from .node_config import GROUP_KEYS as GROUP_KEYS, NODE_KEYS as NODE_KEYS
    from .paths import is_store_url as is_store_url, local_path as local_path, location as location
    from .prefetch import gathered as gathered, one_ahead as one_ahead
    from .process import (
        keep_freed_memory as keep_freed_memory,
        raise_limit_to_highest as raise_limit_to_highest,
    )
    from .reading.aborted import Isolation as Isolation
    from .reading.damaged import salvaged_records as salvaged_records
    from .reading.damaged_parts import DamagedPart as DamagedPart, damaged_parts as damaged_parts
    from .reading.fetch import ALL_TIMES as ALL_TIMES, FetchData as FetchData, Timespan as Timespan
    from .reading.marks import Marks as Marks, remote_text as remote_text
    from .reading.reader import LogReader as LogReader
    from .reading.slices import FileSlice as FileSlice
    from .reading.view import SegmentDescription as SegmentDescription
    from .reading.watcher import LogWatcher as LogWatcher
    from .recovery.producer_state import Origin as Origin, Producer as Producer, ProducerState as ProducerState
    from .remote_metadata.topic import MetadataTopic as MetadataTopic
    from .retention.apply import preview_retention as preview_retention, retain as retain
    from .retention.loading import load_policy as load_policy
    from .retention.plan import RetentionOptions as RetentionOptions, SegmentFate as SegmentFate
    from .retention.policies import (
        RetentionPolicy as RetentionPolicy,
        RetentionVerdict as RetentionVerdict,
        Situation as Situation,
        policies_with as policies_with,
    )
    from .retention.ready_policies import (
        LastGigabytesRetention as LastGigabytesRetention,
        ModificationTimeRetention as ModificationTimeRetention,
        NewestSegmentsRetention as NewestSegmentsRetention,
    )
    from .retention.report import RetentionReport as RetentionReport
    from .retention.survey import SegmentFacts as SegmentFacts
    from .segment.reader import OffsetAndTimestamp as OffsetAndTimestamp
    from .text import (
        TIME_FORMS as TIME_FORMS,
        Address as Address,
        counted as counted,
        is_loopback as is_loopback,
        is_secret as is_secret,
        masked as masked,
        ms_of as ms_of,
        parse_address as parse_address,
        parse_duration_ms as parse_duration_ms,
        parse_instant as parse_instant,
        parse_names as parse_names,
        parse_pairs as parse_pairs,
        printable as printable,
    )
    from .tiering.broker_directory import PreparedPartition as PreparedPartition, prepare_directory as prepare_directory
    from .tiering.partitions import tier_partitions as tier_partitions
    from .tiering.publishing import PublishedPartition as PublishedPartition, plan_publishing as plan_publishing
    from .tiering.restoring import (
        AheadGroup as AheadGroup,
        check_publishable as check_publishable,
        groups_within as groups_within,
        opened_to_restore as opened_to_restore,
        restore_groups as restore_groups,
        restore_to_directory as restore_to_directory,
    )
    from .tiers.address import (
        TierAddress as TierAddress,
        is_tier_address as is_tier_address,
        parse_tier_address as parse_tier_address,
        tier_address as tier_address,
    )
    from .tiers.files.filesystem import TieredFiles as TieredFiles
    from .tiers.files.pinned import PinnedTier as PinnedTier
    from .tiers.metadata_records import (
        RemoteRecord as RemoteRecord,
        SegmentMetadata as SegmentMetadata,
        SegmentState as SegmentState,
        SegmentUpdate as SegmentUpdate,
        TopicIdPartition as TopicIdPartition,
        parse_remote_record as parse_remote_record,
        segments_of as segments_of,
    )
    from .tiers.objects import open_objects as open_objects
    from .topic_rules import (
        CONTROLLERS_TOPIC as CONTROLLERS_TOPIC,
        SINK_PREFIX as SINK_PREFIX,
        check_new_name as check_new_name,
        check_not_reserved as check_not_reserved,
        is_reserved as is_reserved,
        progress_topic as progress_topic,
    )
    from .transactions.abandoned import (
        OpenPartition as OpenPartition,
        OpenTransaction as OpenTransaction,
        Resolution as Resolution,
        ResolvedTransaction as ResolvedTransaction,
        expire_transactional_ids as expire_transactional_ids,
        open_transactions as open_transactions,
        resolve_dead_transactions as resolve_dead_transactions,
    )
    from .transactions.coordinator import (
        TRANSACTION_TIMEOUT_MS as TRANSACTION_TIMEOUT_MS,
        TransactionCoordinator as TransactionCoordinator,
    )
    from .transactions.ending import write_marker as write_marker
    from .transactions.hanging import (
        HangingTransaction as HangingTransaction,
        HoldingTransaction as HoldingTransaction,
        abort_transaction as abort_transaction,
        find_hanging as find_hanging,
        hanging_transactions as hanging_transactions,
        holding_transaction as holding_transaction,
    )
    from .transactions.idempotent import (
        IdempotentProducer as IdempotentProducer,
        appended_before as appended_before,
    )
    from .transactions.producer_ids import (
        allot_producer_id as allot_producer_id,
        client_producer_id as client_producer_id,
        idempotent_producer_id as idempotent_producer_id,
        is_of_driver as is_of_driver,
        is_of_transactional_client as is_of_transactional_client,
    )
    from .transactions.states import (
        PREPARED as PREPARED,
        UNDECIDED as UNDECIDED,
        AtOnce as AtOnce,
        StateChange as StateChange,
        TransactionStates as TransactionStates,
    )
    from .transactions.transaction import (
        Transaction as Transaction,
        TransactionPart as TransactionPart,
        completed_state as completed_state,
        empty_state as empty_state,
        extended_state as extended_state,
        prepared_state as prepared_state,
        ungrouped as ungrouped,
    )
    from .transactions.transactional_id import (
        TransactionalIdLock as TransactionalIdLock,
        check_transactional_id as check_transactional_id,
    )
    from .transactions.writer import TransactionalWriter as TransactionalWriter
    from .transfer.choosing import topics_to_copy as topics_to_copy
    from .transfer.copying import copy_topics as copy_topics
    from .transfer.new_names import NewNames as NewNames
    from .transfer.pieces import CopiedPartition as CopiedPartition
    from .transfer.snapshots import restore_log as restore_log, snapshot_log as snapshot_log
    from .verdicts import Finding as Finding, Verdict as Verdict
    from .writing.append_info import AppendInfo as AppendInfo
    from .writing.checks.checked_batch import (
        CheckedBatch as CheckedBatch,
        CheckLimits as CheckLimits,
        LongCheckError as LongCheckError,
        check_batch as check_batch,
        check_plain as check_plain,
        keeps_codec as keeps_codec,
        surveyed_batch as surveyed_batch,
    )
    from .writing.checks.records import (
        Compression as Compression,
        Refused as Refused,
        bytes_in_batch as bytes_in_batch,
        find_refused as find_refused,
        target_compression as target_compression,
        validate_columns as validate_columns,
    )
    from .writing.forwarding import (
        FetchAnswer as FetchAnswer,
        Forwarded as Forwarded,
        check_forwarded as check_forwarded,
        forwarded as forwarded,
        forwarded_by as forwarded_by,
        joined_batches as joined_batches,
        produced_batches as produced_batches,
        to_message_sets as to_message_sets,
        visible_records as visible_records,
    )
    from .writing.locks import APPEND_LOCK_FILE as APPEND_LOCK_FILE
    from .writing.log import Log as Log
    from .writing.plain_appends import (
        PlainAppends as PlainAppends,
        PlainBatch as PlainBatch,
        begin_plain as begin_plain,
    )
    from .writing.replica import (
        append_fetched as append_fetched,
        begin_at as begin_at,
        fetched_records as fetched_records,
        producer_batches as producer_batches,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "backup.checking": ["verify_backup"],
            "backup.cuts": ["Cut", "find_cut", "is_backup", "list_cuts"],
            "backup.encryption": ["BackupKey", "unlock_backup"],
            "backup.keeping": ["KeepRule", "prune_backup"],
            "backup.places": ["BackupPlace", "open_backup"],
            "backup.restoring": [
                "check_restorable_topics",
                "opened_without_records",
                "restore_backup",
                "restore_topics",
            ],
            "backup.taking": ["take_backup"],
            "bucket.clients.appends": ["ClientBatch", "append_batches"],
            "bucket.clients.transactions": ["ClientTransactions", "give_up"],
            "bucket.commit_log": ["CommitLog"],
            "bucket.commits.commit": ["ClientTransaction", "DataChange", "GroupOffset"],
            "bucket.files.filesystem": ["open_files"],
            "bucket.proposals": ["Claim", "StagedWrite", "claim_app", "commit_write"],
            "bucket.staging": ["STAGED_BYTES_MAX", "Staged", "StagedTopic", "Stager", "combined"],
            "bucket.stores.port": ["ObjectStore"],
            "bucket.stores.probe": ["check_store"],
            "bucket.stores.remote": ["open_store"],
            "bucket.topics": ["ensure_topic"],
            "bucket.upkeep": ["raise_log_start"],
            "bytes_read": ["counting_reads"],
            "classes": ["Option", "create_by_name", "number_or_text"],
            "clock": ["Clock", "SystemClock", "instant", "when_due"],
            "config": [
                "ANYTHING",
                "BOOLEAN",
                "Between",
                "CleanerConfig",
                "INT",
                "Key",
                "LIST",
                "LONG",
                "LogConfig",
                "OneOf",
                "STRING",
                "keys_of",
            ],
            "directory.admin": [
                "DeletedRecords",
                "TopicIds",
                "add_partitions",
                "alter_configs",
                "check_deletable",
                "check_whole",
                "delete_records",
                "delete_topic",
                "find_made_again",
                "made_again",
                "partition_topic_id",
                "topic_id",
                "topic_ids",
                "topic_size",
            ],
            "directory.directory_settings": ["BROKER_KEYS", "alter_broker_settings", "alter_own_settings"],
            "directory.fs_check": ["check_filesystem"],
            "directory.given_settings": ["DescribedSetting", "described_settings"],
            "directory.log_directory": ["ROOT_LOCK_FILE", "TOPICS_FILE"],
            "directory.manager": ["LogManager"],
            "directory.protected_topics": ["COORDINATOR_TOPICS", "INTERNAL_TOPICS", "check_takes_records"],
            "directory.remote_tier": ["remote_offsets"],
            "directory.snapshots.building": ["check_outside"],
            "directory.snapshots.manifest": ["LOG_FOLDER", "Snapshot"],
            "directory.snapshots.restoring": ["read_snapshot"],
            "directory.topics_file": ["Owner", "TopicDescription", "TopicsFile"],
            "dump.one_file": ["dump_file"],
            "dump.options": ["DumpFindings", "DumpOptions", "PayloadDecoder"],
            "erasure.certificate": ["Erasure", "ErasureClaim", "certificate_name"],
            "erasure.choosing": ["Chooser", "RecordChoice"],
            "erasure.keys": ["AskedKeys", "KEY_FORMS"],
            "erasure.operation": ["check_erased_partitions", "erase_partitions"],
            "errors": [
                "AppendError",
                "CorruptRecordError",
                "CorruptionError",
                "DecompressedSizeError",
                "EXIT_DAMAGED",
                "GroupChangedError",
                "IncompleteSearchError",
                "InvalidConfigError",
                "InvalidOffsetError",
                "InvalidProducerEpochError",
                "InvalidRecordError",
                "InvalidTimestampError",
                "InvalidTopicError",
                "InvalidTxnStateError",
                "LockHeldError",
                "LogDirLockedError",
                "LogStoreError",
                "MissingSegmentError",
                "NotALogDirError",
                "ObjectStoreError",
                "OffsetOutOfRangeError",
                "OutOfOrderSequenceError",
                "OutcomeUnknownError",
                "PolicyViolationError",
                "ProducerFencedError",
                "ProgressMismatchError",
                "RecordBatchTooLargeError",
                "RecordTooLargeError",
                "RecordValidationError",
                "SnapshotError",
                "StorageError",
                "TopicExistsError",
                "TopicSettingError",
                "TransactionAbortedError",
                "TransactionCoordinatorFencedError",
                "TransactionError",
                "TransactionRefusedError",
                "UnfinishedAppendError",
                "UnknownTopicOrPartitionError",
                "UnsupportedCompressionTypeError",
                "UnsupportedForMessageFormatError",
                "did_you_mean",
                "text_of",
            ],
            "extras": ["MissingExtraError", "needs_extra"],
            "file_times": ["offsets_before"],
            "filesystem.holders": ["lock_holders"],
            "filesystem.local": ["LocalFileSystem"],
            "filesystem.locks": ["this_process"],
            "filesystem.operations": ["parent_of", "read_file", "write_atomically"],
            "filesystem.port": ["File", "FileSystem", "Lock"],
            "filesystem.temporary": ["temporary_folder"],
            "filtering.partitions": ["filter_partitions"],
            "finding.bounds": ["Bounds"],
            "finding.conditions": ["Condition"],
            "finding.keys": ["KeyChoice", "partitions_of_keys"],
            "finding.partition_search": ["Unsearched"],
            "finding.search": ["FoundRecords", "Search"],
            "format.batch_sets": ["BatchSet"],
            "format.constants": ["Codec", "TimestampType"],
            "format.down_conversion": ["begins_whole", "to_message_set", "to_older_format"],
            "format.files.checkpoints": ["decode_meta_properties", "encode_id"],
            "format.files.file_names": [
                "LOG_START_OFFSET_CHECKPOINT",
                "META_PROPERTIES_FILE",
                "TOPIC_LENGTH_MAX",
                "TopicPartition",
                "check_topic_name",
            ],
            "format.internal.group_records": [
                "TOMBSTONE_ORDER",
                "GroupRecordKey",
                "GroupRecordKind",
                "decode_record",
                "encode_record",
            ],
            "format.internal.consumer_protocol": [
                "Assignment",
                "Subscription",
                "consumer_protocol_version",
                "decode_subscription",
                "decode_whole_assignment",
                "decode_whole_subscription",
                "encode_assignment",
            ],
            "format.internal.internal_topics": [
                "CONSUMER",
                "GROUP_METADATA_TOPIC",
                "GroupMetadataKey",
                "GroupMetadataValue",
                "MemberMetadata",
                "OffsetCommitKey",
                "OffsetCommitValue",
                "REMOTE_LOG_METADATA_TOPIC",
                "TRANSACTION_STATE_TOPIC",
                "TopicPartitions",
                "TransactionLogValue",
                "TransactionState",
                "decode_group_key",
                "decode_transaction_key",
                "positive_hash",
                "string_hash",
            ],
            "format.tables": ["BatchHeaders", "BinaryColumn", "HeadersColumn", "Records"],
            "format.v2": ["BatchFields", "Divided", "EncodedBatches", "ShareEncoder", "encode_batches"],
            "format.varints": ["unsigned_varint"],
            "format.warm_up": ["load_kernels", "load_kernels_beside"],
            "groups.bucket_groups": ["BucketGroups"],
            "groups.coordinated": ["CoordinatedGroups"],
            "groups.coordinator_port": [
                "GroupChange",
                "GroupFence",
                "GroupRecords",
                "ReadFailures",
                "TransactionalOffsets",
            ],
            "groups.in_use": ["GroupsInUse"],
            "groups.lag": ["GroupLags", "LogFigures", "LogLooks", "PartitionLag", "ShareLag", "lag_ms", "log_figures"],
            "groups.offsets": ["CommittedOffset", "GroupKey", "GroupOffsets", "GroupValue"],
            "groups.states": ["GroupDescription", "GroupMember"],
            "kernels.loading": ["are_being_compiled"],
            "kernels.murmur2": ["partitions_of"],
            "kernels.produce.tables": [
                "Found",
                "FoundBatch",
                "FoundConnection",
                "FoundFrame",
                "ProduceTables",
            ],
            "log_lines": ["LineFormatter", "log_to_stderr"],
            "maintenance.describe": ["PartitionDescription", "TopicSummary", "describe_partition", "describe_topics"],
            "maintenance.flags": ["Flag", "MAINTENANCE_FLAGS"],
            "maintenance.outcome": ["OutcomeStatus", "PartitionOutcome", "Tally"],
            "maintenance.partitions": [
                "Operation",
                "ReadsLog",
                "compact_partitions",
                "in_this_process",
                "rebuild_partitions",
                "recover_partitions",
                "retain_partitions",
                "verify_partitions",
            ],
            "maintenance.retain": ["NextOffsets", "TablesKept", "no_tables"],
            "maintenance.run": ["ConfigOverrides", "MaintenanceRun", "Runner", "describe_holder"],
            "maintenance.selecting": ["Selection", "select_partitions"],
            "node_config": ["GROUP_KEYS", "NODE_KEYS"],
            "paths": ["is_store_url", "local_path", "location"],
            "prefetch": ["gathered", "one_ahead"],
            "process": ["keep_freed_memory", "raise_limit_to_highest"],
            "reading.aborted": ["Isolation"],
            "reading.damaged": ["salvaged_records"],
            "reading.damaged_parts": ["DamagedPart", "damaged_parts"],
            "reading.fetch": ["ALL_TIMES", "FetchData", "Timespan"],
            "reading.marks": ["Marks", "remote_text"],
            "reading.reader": ["LogReader"],
            "reading.slices": ["FileSlice"],
            "reading.view": ["SegmentDescription"],
            "reading.watcher": ["LogWatcher"],
            "recovery.producer_state": ["Origin", "Producer", "ProducerState"],
            "remote_metadata.topic": ["MetadataTopic"],
            "retention.apply": ["preview_retention", "retain"],
            "retention.loading": ["load_policy"],
            "retention.plan": ["RetentionOptions", "SegmentFate"],
            "retention.policies": ["RetentionPolicy", "RetentionVerdict", "Situation", "policies_with"],
            "retention.ready_policies": [
                "LastGigabytesRetention",
                "ModificationTimeRetention",
                "NewestSegmentsRetention",
            ],
            "retention.report": ["RetentionReport"],
            "retention.survey": ["SegmentFacts"],
            "segment.reader": ["OffsetAndTimestamp"],
            "text": [
                "Address",
                "TIME_FORMS",
                "counted",
                "is_loopback",
                "is_secret",
                "masked",
                "ms_of",
                "parse_address",
                "parse_duration_ms",
                "parse_instant",
                "parse_names",
                "parse_pairs",
                "printable",
            ],
            "tiering.broker_directory": ["PreparedPartition", "prepare_directory"],
            "tiering.partitions": ["tier_partitions"],
            "tiering.publishing": ["PublishedPartition", "plan_publishing"],
            "tiering.restoring": [
                "AheadGroup",
                "check_publishable",
                "groups_within",
                "opened_to_restore",
                "restore_groups",
                "restore_to_directory",
            ],
            "tiers.address": ["TierAddress", "is_tier_address", "parse_tier_address", "tier_address"],
            "tiers.files.filesystem": ["TieredFiles"],
            "tiers.files.pinned": ["PinnedTier"],
            "tiers.metadata_records": [
                "RemoteRecord",
                "SegmentMetadata",
                "SegmentState",
                "SegmentUpdate",
                "TopicIdPartition",
                "parse_remote_record",
                "segments_of",
            ],
            "tiers.objects": ["open_objects"],
            "topic_rules": [
                "CONTROLLERS_TOPIC",
                "SINK_PREFIX",
                "check_new_name",
                "check_not_reserved",
                "is_reserved",
                "progress_topic",
            ],
            "transactions.abandoned": [
                "OpenPartition",
                "OpenTransaction",
                "Resolution",
                "ResolvedTransaction",
                "expire_transactional_ids",
                "open_transactions",
                "resolve_dead_transactions",
            ],
            "transactions.coordinator": ["TRANSACTION_TIMEOUT_MS", "TransactionCoordinator"],
            "transactions.ending": ["write_marker"],
            "transactions.hanging": [
                "HangingTransaction",
                "HoldingTransaction",
                "abort_transaction",
                "find_hanging",
                "hanging_transactions",
                "holding_transaction",
            ],
            "transactions.idempotent": ["IdempotentProducer", "appended_before"],
            "transactions.producer_ids": [
                "allot_producer_id",
                "client_producer_id",
                "idempotent_producer_id",
                "is_of_driver",
                "is_of_transactional_client",
            ],
            "transactions.states": ["AtOnce", "PREPARED", "StateChange", "TransactionStates", "UNDECIDED"],
            "transactions.transaction": [
                "Transaction",
                "TransactionPart",
                "completed_state",
                "empty_state",
                "extended_state",
                "prepared_state",
                "ungrouped",
            ],
            "transactions.transactional_id": ["TransactionalIdLock", "check_transactional_id"],
            "transactions.writer": ["TransactionalWriter"],
            "transfer.choosing": ["topics_to_copy"],
            "transfer.copying": ["copy_topics"],
            "transfer.new_names": ["NewNames"],
            "transfer.pieces": ["CopiedPartition"],
            "transfer.snapshots": ["restore_log", "snapshot_log"],
            "verdicts": ["Finding", "Verdict"],
            "writing.append_info": ["AppendInfo"],
            "writing.checks.checked_batch": [
                "CheckLimits",
                "CheckedBatch",
                "LongCheckError",
                "check_batch",
                "check_plain",
                "keeps_codec",
                "surveyed_batch",
            ],
            "writing.checks.records": [
                "Compression",
                "Refused",
                "bytes_in_batch",
                "find_refused",
                "target_compression",
                "validate_columns",
            ],
            "writing.forwarding": [
                "FetchAnswer",
                "Forwarded",
                "check_forwarded",
                "forwarded",
                "forwarded_by",
                "joined_batches",
                "produced_batches",
                "to_message_sets",
                "visible_records",
            ],
            "writing.locks": ["APPEND_LOCK_FILE"],
            "writing.log": ["Log"],
            "writing.plain_appends": ["PlainAppends", "PlainBatch", "begin_plain"],
            "writing.replica": ["append_fetched", "begin_at", "fetched_records", "producer_batches"],
        },
    )
