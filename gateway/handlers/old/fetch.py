"""Fetch for clients of Kafka before 0.11, which know message sets only."""

from __future__ import annotations

import os
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ....protocol.fetch import Fetched, FetchPartition
from ....storage import DecompressedSizeError, Isolation, RecordTooLargeError, begins_whole, to_older_format
from ...network.file_slice import FileSlice, Part, release
from ...partitions.led_partition import LedPartition
from ...tiers.log import TieredLog
from ...tiers.records import TierRecords, read_records
from .skipping import offset_with_records, search_from

OLD_FORMATS_BELOW = 4  # the first version of Fetch whose answers may have record batches
_TIMES_FROM = 2  # the first version whose answers may have messages of magic 1
_WHOLE_FROM = 3  # the first version whose answers begin with a whole message in every partition


def fetch_old_format(
    led: LedPartition, asked: FetchPartition, left: int, version: int, bytes_max: int, *, min_one_batch: bool
) -> Fetched[Part]:
    """Returns the answer for one partition. Its last message may be incomplete; such clients ignore it.

    If not even the first message fits: before version 3, the answer has an incomplete message, and the client asks for
    more bytes; in version 3, it has no records, or with ``min_one_batch`` one message of any size. The answer begins
    with the first record from the offset on, in whichever segment that is.

    ``bytes_max`` bounds what a batch that is converted may decompress to. Raises RecordTooLargeError for a larger one.
    """
    answer = _answer(led, asked, asked.offset, left, version, bytes_max, min_one_batch=min_one_batch)
    if answer.records is not None and not len(answer.records):
        offset = offset_with_records(led, asked.offset)
        answer = _answer(led, asked, offset, left, version, bytes_max, min_one_batch=min_one_batch)
    return answer


def read_tier(log: TieredLog, led: LedPartition, offset: int, stop: int, max_bytes: int) -> TierRecords | None:
    """Returns the batches from the first record from ``offset`` on; None if there is none below ``stop``.

    Raises the errors of :func:`read_records`.
    """
    found = search_from(led, log.reader(), offset, stop)
    return read_records(log, found, stop, max_bytes, Isolation.READ_UNCOMMITTED) if found < stop else None


def answer_from_tier(
    led: LedPartition,
    asked: FetchPartition,
    found: TierRecords,
    left: int,
    version: int,
    bytes_max: int,
    *,
    min_one_batch: bool,
) -> Fetched[Part]:
    """Returns the answer with batches of the tier; otherwise as :func:`fetch_old_format`."""
    is_whole = min_one_batch and version >= _WHOLE_FROM
    stored = found.data if is_whole else found.data[: max(min(asked.max_bytes, left), 0)]
    records = _converted(stored, version, led, asked, bytes_max)
    return Fetched(asked.topic, asked.partition, high_watermark=led.high_watermark, records=records)


def _answer(
    led: LedPartition,
    asked: FetchPartition,
    offset: int,
    left: int,
    version: int,
    bytes_max: int,
    *,
    min_one_batch: bool,
) -> Fetched[Part]:
    """Returns the answer for ``offset``; it has no records if old formats cannot show what is there."""
    found = led.slice(
        offset,
        min(asked.max_bytes, left),
        Isolation.READ_UNCOMMITTED,
        min_one_batch=min_one_batch and version >= _WHOLE_FROM,
        whole=False,
    )
    records = None if found.records is None else _converted(found.records, version, led, asked, bytes_max)
    return Fetched(asked.topic, asked.partition, high_watermark=found.high_watermark, records=records)


def _converted(found: Part, version: int, led: LedPartition, asked: FetchPartition, bytes_max: int) -> Part | None:
    """Returns the records as stored, or converted if any of them has a format newer than the request's version."""
    with ExitStack() as undo:
        undo.callback(release, found)
        stored = np.frombuffer(_bytes_of(found), dtype=np.uint8)
        if version >= _WHOLE_FROM and not begins_whole(stored):
            return None
        converted = _in_format(stored, int(version >= _TIMES_FROM), led, asked, bytes_max)
        if converted is None:
            undo.pop_all()
            return found
        return converted


def _bytes_of(found: Part) -> bytes | bytearray | memoryview:
    return os.pread(found.descriptor, found.length, found.position) if isinstance(found, FileSlice) else found


def _in_format(
    stored: npt.NDArray[np.uint8], magic: int, led: LedPartition, asked: FetchPartition, bytes_max: int
) -> bytes | None:
    most = led.config.max_decompressed_bytes
    try:
        converted = to_older_format(stored, magic, asked.offset, min(most, bytes_max))
    except DecompressedSizeError as error:
        if bytes_max < most:
            raise RecordTooLargeError(f"a batch is too large to be converted for this client: {error.reason}") from None
        raise
    if converted is not None and not led.config.message_downconversion_enable:
        raise RequestError(ErrorCode.unsupported_version)
    return converted
