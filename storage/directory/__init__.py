"""A log directory: its topics, partitions, settings and checkpoints.

:class:`LogManager` opens one and hands out its logs; ``admin`` creates, alters and deletes topics; ``snapshot`` copies
a directory and restores the copy; ``fs_check`` tests whether a file system keeps its promises. A broker's directory has
no topic settings: ``broker_settings/`` reads them from its KRaft metadata, or from what Kafka's tools print.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .admin import (
        DeletedRecords as DeletedRecords,
        add_partitions as add_partitions,
        alter_configs as alter_configs,
        check_deletable as check_deletable,
        check_whole as check_whole,
        delete_records as delete_records,
        delete_topic as delete_topic,
        log_bytes as log_bytes,
        partition_topic_id as partition_topic_id,
        topic_id as topic_id,
        topic_ids as topic_ids,
        topic_size as topic_size,
    )
    from .broker_settings.described import parse_described as parse_described
    from .broker_settings.found import FoundSettings as FoundSettings, TopicSettings as TopicSettings
    from .broker_settings.metadata_log import read_metadata_log as read_metadata_log
    from .directory_settings import (
        BROKER_KEYS as BROKER_KEYS,
        alter_broker_settings as alter_broker_settings,
        check_interval_ms as check_interval_ms,
    )
    from .fs_check import check_filesystem as check_filesystem
    from .given_settings import completed as completed, config_of as config_of, ungiven as ungiven
    from .log_directory import (
        ROOT_FILE_BYTES_MAX as ROOT_FILE_BYTES_MAX,
        ROOT_LOCK_FILE as ROOT_LOCK_FILE,
        TOPICS_FILE as TOPICS_FILE,
        RootCheckpoints as RootCheckpoints,
        check_copied as check_copied,
    )
    from .manager import INTERNAL_PARTITIONS as INTERNAL_PARTITIONS, LOST as LOST, LogManager as LogManager
    from .position_topics import PositionTopics as PositionTopics
    from .protected_topics import (
        COORDINATOR_TOPICS as COORDINATOR_TOPICS,
        INTERNAL_TOPICS as INTERNAL_TOPICS,
        POLICY_KEY as POLICY_KEY,
        check_stays_compacted as check_stays_compacted,
        check_takes_records as check_takes_records,
        is_protected as is_protected,
        is_state_of_a_tool as is_state_of_a_tool,
    )
    from .remote_tier import remote_offsets as remote_offsets
    from .snapshot import (
        LOG_FOLDER as LOG_FOLDER,
        Snapshot as Snapshot,
        fill_snapshot as fill_snapshot,
        read_snapshot as read_snapshot,
        restore_snapshot as restore_snapshot,
        take_snapshot as take_snapshot,
    )
    from .topics_file import Known as Known, TopicDescription as TopicDescription
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "admin": [
                "DeletedRecords",
                "add_partitions",
                "alter_configs",
                "check_deletable",
                "check_whole",
                "delete_records",
                "delete_topic",
                "log_bytes",
                "partition_topic_id",
                "topic_id",
                "topic_ids",
                "topic_size",
            ],
            "broker_settings.described": ["parse_described"],
            "broker_settings.found": ["FoundSettings", "TopicSettings"],
            "broker_settings.metadata_log": ["read_metadata_log"],
            "directory_settings": ["BROKER_KEYS", "alter_broker_settings", "check_interval_ms"],
            "fs_check": ["check_filesystem"],
            "given_settings": ["completed", "config_of", "ungiven"],
            "log_directory": [
                "ROOT_FILE_BYTES_MAX",
                "ROOT_LOCK_FILE",
                "RootCheckpoints",
                "TOPICS_FILE",
                "check_copied",
            ],
            "manager": ["INTERNAL_PARTITIONS", "LOST", "LogManager"],
            "position_topics": ["PositionTopics"],
            "protected_topics": [
                "COORDINATOR_TOPICS",
                "INTERNAL_TOPICS",
                "POLICY_KEY",
                "check_stays_compacted",
                "check_takes_records",
                "is_protected",
                "is_state_of_a_tool",
            ],
            "remote_tier": ["remote_offsets"],
            "snapshot": [
                "LOG_FOLDER",
                "Snapshot",
                "fill_snapshot",
                "read_snapshot",
                "restore_snapshot",
                "take_snapshot",
            ],
            "topics_file": ["Known", "TopicDescription"],
        },
    )
