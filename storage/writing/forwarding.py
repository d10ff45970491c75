"""Batches of one log for another that gives them offsets of its own, as they are where that is possible.

A producer may send neither gaps nor markers nor times of a broker, and a reader of committed records sees no aborted
ones. So a batch is kept as it is, compressed records included, if all its records are sent and nothing in its header
is against it; only its producer, its sequence and its offset change. The records of other batches are encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .. import format as formats
from ..config import LogConfig
from ..errors import RecordTooLargeError
from ..format import StopReason, v2
from ..format.constants import NO_LEADER_EPOCH, Codec, TimestampType
from ..format.tables import HEADERS, BatchHeaders, Bools, Bytes, Int32s, Records
from .checks.records import Compression, bytes_in_batch, validate_columns

_OLD_CODECS = ({Codec.LZ4: Codec.SNAPPY, Codec.ZSTD: Codec.GZIP}, {Codec.ZSTD: Codec.GZIP})  # by magic
Placing = Callable[[Records], Int32s]  # the share of each record, such as its partition; shape (n,)


class FetchAnswer(NamedTuple):
    """An answer to a fetch: whole batches from an offset on, and what readers of committed records must not see."""

    data: bytes  # the last batch may be incomplete
    offset: int  # of the first record that is wanted
    aborted: Sequence[tuple[int, int]] = ()  # (producer id, first offset) of aborted transactions, as Kafka lists them


class Forwarded(NamedTuple):
    """Batches for another log."""

    shares: list[tuple[int, v2.EncodedBatches]]  # offsets count from 0 in each; checksums are not written yet
    next_offset: int  # in the source: after the last whole batch; the wanted offset if there is none
    kept: int  # how many batches have the records' bytes of the source


def forwarded(answer: FetchAnswer, *, batch_size_max: int, codec: Codec | None = None, share: int = 0) -> Forwarded:
    """Returns the visible records of a fetch as batches of one share, each of at most ``batch_size_max`` bytes.

    ``codec`` is the only one that the target stores; None: any.
    Raises CorruptRecordError for damaged batches, and RecordTooLargeError for a record that needs a larger batch.
    """
    buffer, headers, next_offset = _visible(answer)
    keeps = _can_stay(headers, answer.offset, batch_size_max, codec)
    pieces: list[v2.EncodedBatches] = []
    for first, last, stays, found in _runs(keeps, headers):
        if stays:
            pieces.append(v2.EncodedBatches(buffer, headers[first:last]))
        else:
            records = _decoded(buffer, headers[first:last], answer.offset)
            pieces.append(_encoded(records, found if codec is None else codec, batch_size_max))
    shares = [(share, joined_batches(pieces))] if any(len(piece.headers) for piece in pieces) else []
    return Forwarded(shares, next_offset, int(np.count_nonzero(keeps)))


def forwarded_by(
    placing: Placing, answer: FetchAnswer, *, count: int, batch_size_max: int, codec: Codec | None = None
) -> Forwarded:
    """Returns the visible records of a fetch as batches of ``count`` shares, to which ``placing`` assigns each record.

    All records are encoded again, with the codec that they have. Raises as :func:`forwarded`.
    """
    buffer, headers, next_offset = _visible(answer)
    runs = _runs(np.zeros(len(headers), dtype=np.bool_), headers)
    decoded = ((found, _decoded(buffer, headers[first:last], answer.offset)) for first, last, _, found in runs)
    return forwarded_records(decoded, placing, next_offset, count=count, batch_size_max=batch_size_max, codec=codec)


def forwarded_records(
    runs: Iterable[tuple[Codec, Records]],
    placing: Placing,
    next_offset: int,
    *,
    count: int,
    batch_size_max: int,
    codec: Codec | None = None,
) -> Forwarded:
    """Returns records, each run with its codec, as batches of ``count`` shares, to which ``placing`` assigns each.

    ``codec`` is the only one that the target stores; None: any. Raises RecordTooLargeError as :func:`forwarded`.
    """
    pieces: dict[int, list[v2.EncodedBatches]] = {}
    for found, records in runs:
        shares = placing(records)
        for share in np.unique(shares).tolist():
            used = found if codec is None else codec
            encoded = _encoded(records, used, batch_size_max, shares == share)
            pieces.setdefault(share, []).append(encoded)
    if pieces and not 0 <= min(pieces) <= max(pieces) < count:
        raise IndexError(f"records have shares from {min(pieces)} to {max(pieces)}, but there are only {count}")
    return Forwarded([(share, joined_batches(each)) for share, each in sorted(pieces.items())], next_offset, 0)


def visible_records(answer: FetchAnswer) -> tuple[Records, int]:
    """Returns the records of a fetch that readers of committed records see, and the offset of the next fetch.

    Raises CorruptRecordError.
    """
    buffer, headers, next_offset = _visible(answer)
    return _decoded(buffer, headers, answer.offset), next_offset


def check_forwarded(batches: v2.EncodedBatches, *, now_ms: int, config: LogConfig) -> None:
    """Raises RecordValidationError, or InvalidTimestampError, for records that a topic refuses."""
    records = formats.decode(batches.buffer, batches.headers, columns=("key",), is_verified=True).records
    validate_columns(records, now_ms=now_ms, config=config)


def produced_batches(
    batches: v2.EncodedBatches, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> Iterator[tuple[bytes, int]]:
    """Yields each batch for a produce request, with offsets from 0, and the number of its records.

    Changes the headers in the buffer.
    """
    buffer, headers = batches
    sequence = base_sequence
    for row in range(len(headers)):
        (batch,) = v2.stamp_producer(
            buffer,
            headers[row : row + 1],
            base_offset=0,
            leader_epoch=NO_LEADER_EPOCH,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
        ).table
        start, count = int(batch["position"]), int(batch["count"])
        yield buffer[start : start + int(batch["size"])].tobytes(), count
        sequence = sequence if sequence < 0 else (sequence + count) % 2**31


def to_message_sets(batches: v2.EncodedBatches, magic: int, message_bytes_max: int) -> Iterator[bytes]:
    """Yields batches as message sets of magic 0 or 1, without record headers, for brokers of Kafka 0.8 to 0.10.

    Each set is for a request of its own: it has plain messages, or one compressed message of at most
    ``message_bytes_max`` bytes, if its records are several. A broker would make one of several compressed messages.
    Codecs that these brokers do not have are replaced: zstd by gzip, and for magic 0 also lz4 by snappy.
    """
    buffer, headers = batches
    codecs = [formats.codec_of(codec) for codec in headers.codec.tolist()]
    old = [_OLD_CODECS[magic].get(codec, codec) for codec in codecs]
    for first, last in _runs_of_messages(old, headers.table["size"].tolist(), message_bytes_max):
        records = formats.decode(buffer, headers[first:last], columns=("key", "value"), is_verified=True).records
        yield from _message_sets(records, magic, old[first], message_bytes_max)


def _runs_of_messages(codecs: Sequence[Codec], sizes: Sequence[int], bytes_max: int) -> Iterator[tuple[int, int]]:
    """Yields the bounds of runs of batches with one codec; those of a codec have up to ``bytes_max`` bytes."""
    first = size = 0
    for row, (codec, more) in enumerate(zip(codecs, sizes, strict=True)):
        is_full = codec is not Codec.NONE and size + more > bytes_max
        if row > first and (codec is not codecs[first] or is_full):
            yield first, row
            first, size = row, 0
        size += more
    if first < len(codecs):
        yield first, len(codecs)


def _message_sets(records: Records, magic: int, codec: Codec, bytes_max: int) -> Iterator[bytes]:
    encoded: Bytes = formats.by_magic(magic).encode(records, codec)
    if codec is Codec.NONE or len(records) == 1 or len(encoded) <= bytes_max:
        yield encoded.tobytes()
        return
    middle = len(records) // 2
    yield from _message_sets(records.slice(0, middle), magic, codec, bytes_max)
    yield from _message_sets(records.slice(middle, len(records)), magic, codec, bytes_max)


def _visible(answer: FetchAnswer) -> tuple[Bytes, BatchHeaders, int]:
    """Returns the buffer, the headers of the batches with visible records, verified, and the next offset."""
    buffer = np.frombuffer(answer.data, dtype=np.uint8)
    scan = formats.scan(buffer)
    if scan.reason not in (StopReason.END, StopReason.TRUNCATED):
        raise formats.stop_error(scan, buffer)
    headers = scan.headers
    formats.verify(buffer, headers)
    next_offset = max(headers.next_offset, answer.offset) if len(headers) else answer.offset
    wanted = headers.table["last_offset"] >= answer.offset
    return buffer, headers[wanted & ~headers.is_control & ~_is_aborted(headers, answer.aborted)], next_offset


def _is_aborted(headers: BatchHeaders, aborted: Sequence[tuple[int, int]]) -> Bools:
    """Returns which batches belong to an aborted transaction: from its first offset to its producer's next marker."""
    found = np.zeros(len(headers), dtype=np.bool_)
    waiting = sorted(aborted, key=lambda each: each[1], reverse=True)
    if not waiting:
        return found
    hidden: set[int] = set()
    columns = (headers.table["producer_id"].tolist(), headers.table["last_offset"].tolist())
    flags = (headers.is_control.tolist(), headers.is_transactional.tolist())
    for row, (producer, last, is_control, is_transactional) in enumerate(zip(*columns, *flags, strict=True)):
        while waiting and waiting[-1][1] <= last:
            hidden.add(waiting.pop()[0])
        if is_control:
            hidden.discard(producer)
        elif is_transactional:
            found[row] = producer in hidden
    return found


def _can_stay(headers: BatchHeaders, offset: int, batch_size_max: int, codec: Codec | None) -> Bools:
    table = headers.table
    is_whole = (table["base_offset"] >= offset) & (table["count"] == table["last_offset"] - table["base_offset"] + 1)
    is_plain = (headers.timestamp_type == TimestampType.CREATE_TIME) & ~headers.has_delete_horizon
    found: Bools = (table["magic"] == v2.MAGIC) & is_whole & is_plain & (table["size"] <= batch_size_max)
    return found if codec is None else found & (headers.codec == codec)


def _runs(keeps: Bools, headers: BatchHeaders) -> Iterator[tuple[int, int, bool, Codec]]:
    """Yields (first row, last row + 1, whether the batches stay, their codec) for each run."""
    kinds = np.where(keeps, -1, headers.codec)
    bounds = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    for first, last in pairwise(bounds):
        if first < last:
            yield first, last, bool(keeps[first]), formats.codec_of(int(headers.codec[first]))


def _decoded(buffer: Bytes, headers: BatchHeaders, offset: int) -> Records:
    records = formats.decode(buffer, headers, is_verified=True).records
    return records.between(offset, np.iinfo(np.int64).max)


def _encoded(records: Records, codec: Codec, batch_size_max: int, only: Bools | None = None) -> v2.EncodedBatches:
    room = bytes_in_batch(batch_size_max, Compression(codec, None))
    encoded = v2.encode_batches(records, v2.BatchFields(codec=codec), only=only, batch_bytes_max=room)
    if len(encoded.headers) and (largest := int(encoded.headers.table["size"].max())) > batch_size_max:
        raise RecordTooLargeError(
            f"a record needs a batch of {largest} bytes, but the target takes only {batch_size_max}: raise its "
            "max.message.bytes"
        )
    return encoded


def joined_batches(pieces: Sequence[v2.EncodedBatches]) -> v2.EncodedBatches:
    """Returns all batches in one buffer, one after another, with offsets that count from 0 without a gap."""
    tables = [piece.headers.table for piece in pieces]
    table = np.concatenate(tables) if tables else np.empty(0, dtype=HEADERS)
    buffer = np.empty(int(table["size"].sum()), dtype=np.uint8)
    at = 0
    for piece in pieces:
        for start, size in piece.headers.table[["position", "size"]].tolist():
            buffer[at : at + size] = piece.buffer[start : start + size]
            at += size
    ends, offsets = np.cumsum(table["size"]), np.cumsum(table["count"])
    table["position"], table["last_offset"] = ends - table["size"], offsets - 1
    table["base_offset"] = offsets - table["count"]
    return v2.EncodedBatches(buffer, BatchHeaders(table))
