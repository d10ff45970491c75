"""Rows of Spark as columns of records, and back: schemas, Arrow batches, and offsets in Spark's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .arrow import (
        CREATE_TIME as CREATE_TIME,
        LongRowError as LongRowError,
        OverMessages as OverMessages,
        TimeBeyondSparkError as TimeBeyondSparkError,
        as_binary as as_binary,
        check_nulls as check_nulls,
        is_beyond_spark as is_beyond_spark,
        time_beyond_spark as time_beyond_spark,
        to_batch as to_batch,
        to_records as to_records,
    )
    from .catalog_tables import (
        SAVE as SAVE,
        VIEW as VIEW,
        missing_path as missing_path,
        refuse_table as refuse_table,
    )
    from .columns import (
        IN_RECORDS as IN_RECORDS,
        READ_TYPES as READ_TYPES,
        read_names as read_names,
        schema_of as schema_of,
    )
    from .kafka_options import (
        BROKERS as BROKERS,
        KAFKAS as KAFKAS,
        check_names as check_names,
        log_once as log_once,
        notice_of as notice_of,
    )
    from .offsets import (
        EARLIEST as EARLIEST,
        LATEST as LATEST,
        LONG_MAX as LONG_MAX,
        AtEnd as AtEnd,
        AtOffsets as AtOffsets,
        AtTimestamp as AtTimestamp,
        AtTimestamps as AtTimestamps,
        Bound as Bound,
        DataLoss as DataLoss,
        Ends as Ends,
        Logs as Logs,
        Offsets as Offsets,
        bound_at_offsets as bound_at_offsets,
        check_order as check_order,
        check_start_before_end as check_start_before_end,
        json_object as json_object,
        offsets_from_json as offsets_from_json,
        offsets_from_nested as offsets_from_nested,
        offsets_to_nested as offsets_to_nested,
        timestamps_from_json as timestamps_from_json,
        warn_of_remote as warn_of_remote,
    )
    from .read_mode import ReadMode as ReadMode
    from .spark_schema import (
        WriteColumns as WriteColumns,
        arrow_schema as arrow_schema,
        nullable_as as nullable_as,
        read_schema as read_schema,
        schema_with as schema_with,
    )
    from .topic_ids import (
        KnownOffsets as KnownOffsets,
        TopicIds as TopicIds,
        ids_in as ids_in,
        made_again as made_again,
        with_ids as with_ids,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "arrow": [
                "CREATE_TIME",
                "LongRowError",
                "OverMessages",
                "TimeBeyondSparkError",
                "as_binary",
                "check_nulls",
                "is_beyond_spark",
                "time_beyond_spark",
                "to_batch",
                "to_records",
            ],
            "catalog_tables": ["SAVE", "VIEW", "missing_path", "refuse_table"],
            "columns": ["IN_RECORDS", "READ_TYPES", "read_names", "schema_of"],
            "kafka_options": ["BROKERS", "KAFKAS", "check_names", "log_once", "notice_of"],
            "offsets": [
                "AtEnd",
                "AtOffsets",
                "AtTimestamp",
                "AtTimestamps",
                "Bound",
                "DataLoss",
                "EARLIEST",
                "Ends",
                "LATEST",
                "LONG_MAX",
                "Logs",
                "Offsets",
                "bound_at_offsets",
                "check_order",
                "check_start_before_end",
                "json_object",
                "offsets_from_json",
                "offsets_from_nested",
                "offsets_to_nested",
                "timestamps_from_json",
                "warn_of_remote",
            ],
            "read_mode": ["ReadMode"],
            "spark_schema": ["WriteColumns", "arrow_schema", "nullable_as", "read_schema", "schema_with"],
            "topic_ids": ["KnownOffsets", "TopicIds", "ids_in", "made_again", "with_ids"],
        },
    )
