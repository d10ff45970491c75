"""Writing a partition: :class:`Log`, the locks of a partition, and the checks of what is appended.

``shared_log`` lets several processes write one log, ``record_checks`` and ``batch_checks`` refuse what the topic does
not accept, ``checked_batch`` and ``checked_appends`` take the batches of clients with few steps, ``replica`` appends
batches of a broker's log, ``forwarding`` prepares them for a log with offsets of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .batch_checks import (
        analyze as analyze,
        check_batch_sizes as check_batch_sizes,
        validate_and_assign_offsets as validate_and_assign_offsets,
    )
    from .checked_appends import (
        AppendInfo as AppendInfo,
        PlainAppends as PlainAppends,
        PlainBatch as PlainBatch,
        Producer as Producer,
        Refusal as Refusal,
        begin_plain as begin_plain,
        produced_batch as produced_batch,
        repeated_append as repeated_append,
    )
    from .checked_batch import (
        CheckedBatch as CheckedBatch,
        CheckLimits as CheckLimits,
        LongCheckError as LongCheckError,
        check_batch as check_batch,
        check_plain as check_plain,
        keeps_codec as keeps_codec,
    )
    from .forwarding import (
        FetchAnswer as FetchAnswer,
        Forwarded as Forwarded,
        Placing as Placing,
        check_forwarded as check_forwarded,
        forwarded as forwarded,
        forwarded_by as forwarded_by,
        forwarded_records as forwarded_records,
        joined_batches as joined_batches,
        produced_batches as produced_batches,
        to_message_sets as to_message_sets,
        visible_records as visible_records,
    )
    from .locks import (
        APPEND_LOCK_FILE as APPEND_LOCK_FILE,
        MAINTENANCE_LOCK_FILE as MAINTENANCE_LOCK_FILE,
        is_append_lock_taken as is_append_lock_taken,
        take_maintenance_lock as take_maintenance_lock,
        wait_for_lock as wait_for_lock,
        write_holder as write_holder,
    )
    from .log import Log as Log
    from .record_checks import (
        Compression as Compression,
        Refused as Refused,
        bytes_in_batch as bytes_in_batch,
        find_refused as find_refused,
        target_compression as target_compression,
        validate_columns as validate_columns,
    )
    from .replica import (
        append_fetched as append_fetched,
        begin_at as begin_at,
        fetched_records as fetched_records,
        producer_batches as producer_batches,
    )
    from .shared_log import SharedLog as SharedLog
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "batch_checks": ["analyze", "check_batch_sizes", "validate_and_assign_offsets"],
            "checked_appends": [
                "AppendInfo",
                "PlainAppends",
                "PlainBatch",
                "Producer",
                "Refusal",
                "begin_plain",
                "produced_batch",
                "repeated_append",
            ],
            "checked_batch": [
                "CheckLimits",
                "CheckedBatch",
                "LongCheckError",
                "check_batch",
                "check_plain",
                "keeps_codec",
            ],
            "forwarding": [
                "FetchAnswer",
                "Forwarded",
                "Placing",
                "check_forwarded",
                "forwarded",
                "forwarded_by",
                "forwarded_records",
                "joined_batches",
                "produced_batches",
                "to_message_sets",
                "visible_records",
            ],
            "locks": [
                "APPEND_LOCK_FILE",
                "MAINTENANCE_LOCK_FILE",
                "is_append_lock_taken",
                "take_maintenance_lock",
                "write_holder",
                "wait_for_lock",
            ],
            "log": ["Log"],
            "record_checks": [
                "Compression",
                "Refused",
                "bytes_in_batch",
                "find_refused",
                "target_compression",
                "validate_columns",
            ],
            "replica": ["append_fetched", "begin_at", "fetched_records", "producer_batches"],
            "shared_log": ["SharedLog"],
        },
    )
