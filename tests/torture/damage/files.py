"""Every kind of file, damaged, before the code that reads it: thousands a second, nothing touches a disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from pyspark_commitlog.storage import format as formats
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.topics_file import TopicDescription, decode_topics, encode_topics
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.format import compaction_view, v2
from pyspark_commitlog.storage.format.constants import Codec
from pyspark_commitlog.storage.format.files import checkpoints, file_names, index_entries
from pyspark_commitlog.storage.format.internal import internal_topics
from pyspark_commitlog.storage.format.internal.consumer_protocol import decode_assignment
from pyspark_commitlog.storage.format.legacy import messages, v0, v1
from pyspark_commitlog.storage.format.tables import Bytes, Records
from pyspark_commitlog.storage.recovery.producer_state import Origin
from pyspark_commitlog.storage.recovery.producer_state_manager import ProducerStateManager
from pyspark_commitlog.storage.writing.checks.batches import analyze, validate_and_assign_offsets
from tests.support.kafka import broker_dirs
from tests.support.logs import record_sets, reference
from tests.support.logs.building import records
from tests.torture.damage.damaging import damage, sign_batches, sign_messages, sign_snapshot

Content = tuple[Any, ...]  # of a record: all but its offset
LOG_BYTES_MAX = 4_000  # of a subject: more takes longer and says no more
SECRET = np.array([1, 2], dtype=np.uint64)
CONFIG = LogConfig()
BOMB_LIMIT = 1 << 20
# What comes of damage: checksums as they were; or made right again, so that nothing tells damage from what was written.
DETECTED, HARMLESS = "detected", "harmless"
REFUSED, READ = "refused though signed again", "read as signed again"
TWIN_SHARE = 0.1  # of inputs that the slow twin reads too


@dataclass(frozen=True)
class Subject:
    """A file that is damaged again and again; ``attempt`` raises AssertionError for what it does not stand."""

    name: str
    attempt: Callable[[Random], str]  # in a word, what came of it


# Logs


def whole_batches(data: bytes) -> bytes:
    """As many from the beginning as are asked for, one at least."""
    headers = formats.scan(np.frombuffer(data, dtype=np.uint8)).headers
    ends = (headers.table["position"] + headers.table["size"]).tolist()
    return data[: max([end for end in ends if end <= LOG_BYTES_MAX], default=ends[0])]


def contents(found: Records) -> list[Content]:
    columns: list[Sequence[Any]] = [found.timestamps.tolist(), found.timestamp_types.tolist()]
    for column in (found.keys, found.values):
        columns.append([None] * len(found) if column is None else column.to_list())
    if found.headers is None:
        columns.append([()] * len(found))
    else:
        pairs = list(zip(found.headers.keys.to_list(), found.headers.values.to_list(), strict=True))
        columns.append([tuple(pairs[first:last]) for first, last in pairwise(found.headers.offsets.tolist())])
    return list(zip(*columns, strict=True))


def read_log(data: bytes) -> list[Content]:
    buffer = as_buffer(data)
    return contents(formats.decode(buffer, formats.scan(buffer).headers).records)


def as_buffer(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def attempt_log(data: bytes, written: frozenset[Content], sign: Callable[[bytes], bytes], chance: Random) -> str:
    """With checksums as they were: an error, or records that were written. With new ones: an error, or an end."""
    damaged = damage(chance, data)
    if chance.random() < 0.5:
        return read_signed(sign(damaged), chance)
    try:
        found = read_log(damaged)
    except LogStoreError:
        return DETECTED
    strange = set(found) - written
    assert not strange, f"records that nobody wrote: {strange}"
    return HARMLESS


def read_signed(data: bytes, chance: Random) -> str:
    buffer, reader = as_buffer(data), chance.choice(READERS)
    if chance.random() < TWIN_SHARE:
        compare_with_twin(buffer)
    try:
        reader(buffer)
    except LogStoreError:
        return REFUSED
    return READ


def read_columns(buffer: Bytes) -> None:
    headers = formats.scan(buffer).headers
    found, counts = formats.decode(buffer, headers)
    assert len(found) == counts.sum()
    assert len(contents(found)) == len(found)
    formats.decode(buffer, headers, columns=("value",))


def read_keys(buffer: Bytes) -> None:
    headers = formats.scan(buffer).headers
    for magics in (headers.table["magic"] < v2.MAGIC, headers.table["magic"] == v2.MAGIC):
        rows = headers[magics]
        found = compaction_view.read(buffer, rows, SECRET)
        chosen = np.arange(len(found.offsets))
        batches = np.flatnonzero(found.counts > 0)
        horizons = np.full(len(batches), compaction_view.NO_HORIZON)
        if len(batches):
            found.rebuild(compaction_view.Wanted(batches, chosen, found.counts[batches], rows[batches], horizons))


def append(origin: Origin, buffer: Bytes) -> None:
    analysis = analyze(buffer, origin, CONFIG)
    if analysis.valid_bytes:
        whole = buffer[: analysis.valid_bytes]
        validated = validate_and_assign_offsets(
            whole, analysis, start_offset=7, now_ms=0, leader_epoch=0, origin=origin, config=CONFIG
        )
        formats.decode(validated.buffer, validated.headers)  # what is taken can be read


READERS: tuple[Callable[[Bytes], None], ...] = (
    read_columns,
    read_keys,
    partial(append, Origin.CLIENT),
    partial(append, Origin.COORDINATOR),
)


def compare_with_twin(buffer: Bytes) -> None:
    """Batch by batch, where one is not compressed, the slow reader agrees: the same records, or an error of both."""
    headers = formats.scan(buffer).headers
    plain = (headers.table["magic"] == v2.MAGIC) & (headers.codec == Codec.NONE)
    for row in np.flatnonzero(plain & formats.checksums_match(buffer, headers)).tolist():
        first, size = (int(headers.table[name][row]) for name in ("position", "size"))
        try:
            slow = [
                (each.timestamp, each.key, each.value, each.headers)
                for each in reference.decode_batch(buffer[first : first + size].tobytes())
            ]
        except reference.Malformed:
            slow = None
        try:
            found = formats.decode(buffer, headers[row : row + 1]).records
            fast = [(time, key, value, headers) for time, _, key, value, headers in contents(found)]
        except LogStoreError:
            fast = None
        assert fast == slow, f"batch {row}: {fast} and, read slowly, {slow}"


def log_subject(name: str, data: bytes) -> Subject:
    data = whole_batches(data)
    sign = sign_batches if data[16] == v2.MAGIC else sign_messages
    return Subject(name, partial(attempt_log, data, frozenset(read_log(data)), sign))


def logs() -> Iterator[Subject]:
    for name in record_sets.names():
        if not name.startswith(record_sets.DAMAGED) and record_sets.log_bytes(name).size:
            yield log_subject(f"record set {name}", record_sets.log_bytes(name).tobytes())
    for path in sorted((broker_dirs.legacy() / "log").glob("*/*.log")):
        if path.stat().st_size:
            yield log_subject(f"magic 0 and 1, {path.parent.name}", path.read_bytes())
    for scenario in ("codecs", "transactions", "groups"):
        for path in sorted((broker_dirs.stage(f"{scenario}/final") / "log").glob("*/*.log")):
            if path.stat().st_size:
                yield log_subject(f"{scenario}, {path.parent.name}", path.read_bytes())


# What lies within compressed batches: damaged before it is compressed


def attempt_inside(plain: bytes, codec: Codec, magic: int, chance: Random) -> str:
    inner = damage(chance, plain)
    if magic == v2.MAGIC:
        data = batch_around(inner, codec)
    else:
        data = wrapper_around(sign_messages(inner) if chance.random() < 0.5 else inner, codec, magic)
    return read_signed(data, chance)


def batch_around(body: bytes, codec: Codec) -> bytes:
    head = bytearray(v2.encode(records([b"x"] * 20), v2.BatchFields(codec=codec))[: v2.LAYOUT.itemsize].tobytes())
    packed = bytes(formats.compression.compress(codec, as_buffer(body), magic=v2.MAGIC)) if body else b""
    head[8:12] = (len(head) + len(packed) - 12).to_bytes(4, "big")
    return sign_batches(bytes(head) + packed)


def wrapper_around(body: bytes, codec: Codec, magic: int) -> bytes:
    return bytes(messages.wrapper(magic, as_buffer(body), codec, None, 19, 5, False))


def inner_subjects() -> Iterator[Subject]:
    written = records([b"value %d" % n * n for n in range(20)], keys=[b"%d" % n for n in range(20)])
    plain = v2.encode(written, v2.BatchFields())[v2.LAYOUT.itemsize :].tobytes()
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        yield Subject(f"within {codec.name.lower()}", partial(attempt_inside, plain, codec, v2.MAGIC))
    for module in (v0, v1):
        messages = module.encode(written, Codec.NONE).tobytes()
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            name = f"within {codec.name.lower()} of magic {module.MAGIC}"
            yield Subject(name, partial(attempt_inside, messages, codec, module.MAGIC))


# Bombs


def attempt_bomb(bomb: bytes, sign: Callable[[bytes], bytes], chance: Random) -> str:
    """It is refused by what it would hold; damaged, it may hold little."""
    data = as_buffer(bomb if chance.random() < 0.3 else sign(damage(chance, bomb)))
    try:
        found = formats.decode(data, formats.scan(data).headers, decompressed_bytes_max=BOMB_LIMIT).records
    except LogStoreError:
        return REFUSED
    assert len(data) != len(bomb) or data.tobytes() != bomb, "a bomb went off"
    assert found.values is not None
    assert len(found.values.data) <= BOMB_LIMIT * max(len(formats.scan(data).headers), 1)
    return READ


def bombs() -> Iterator[Subject]:
    zeros = bytes(24 * BOMB_LIMIT)
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        yield Subject(
            f"a bomb of {codec.name.lower()}", partial(attempt_bomb, batch_around(zeros, codec), sign_batches)
        )
    yield Subject(
        "a bomb of snappy", partial(attempt_bomb, batch_around(zeros[: 4 * BOMB_LIMIT], Codec.SNAPPY), sign_batches)
    )
    yield Subject("a bomb of magic 1", partial(attempt_bomb, wrapper_around(zeros, Codec.GZIP, 1), sign_messages))


# Other files, and records of the internal topics


def attempt_decoder(decode: Callable[[bytes], object], data: bytes, chance: Random) -> str:
    """An error of ours, or an answer: without a checksum of its own a file may say something else."""
    try:
        decode(damage(chance, data))
    except LogStoreError:
        return REFUSED
    return READ


def attempt_snapshot(data: bytes, chance: Random) -> str:
    """The checksum finds all damage; with a right one, whatever is in it can be loaded."""
    damaged = damage(chance, data)
    entries = checkpoints.decode_snapshot(data)
    try:
        found = checkpoints.decode_snapshot(damaged)
    except LogStoreError:
        found = entries
    assert found == entries, "a damaged snapshot was believed"
    try:
        loaded = checkpoints.decode_snapshot(sign_snapshot(damaged))
    except LogStoreError:
        return DETECTED
    state = ProducerStateManager("damaged")
    state.load(loaded, 0, 100)
    checkpoints.decode_snapshot(state.to_bytes())
    return READ


def decode_topics_safely(data: bytes) -> None:
    for name, topic in decode_topics(data).items():
        file_names.check_topic_name(name)  # it becomes part of a path
        assert topic.partitions
        assert json.dumps(dict(topic.configs))


def decode_index(decode: Callable[[int, bytes], tuple[np.ndarray, np.ndarray]], data: bytes) -> None:
    first, second = decode(17, data)
    assert len(first) == len(second) <= len(data)


def internal_value(decode: Callable[[bytes], Any], data: bytes) -> None:
    """What can be read can be written again, and says the same."""
    value = decode(data)
    if isinstance(value, internal_topics.GroupMetadataValue):
        for member in value.members:
            decode_assignment(member.assignment)
    if value is not None:
        value.encode()


TOPICS = encode_topics(
    TopicDescription(f"topic-{n}", (0, 1, 2), {"retention.ms": str(n)}, "AAAAAAAAAAAAAAAAAAAAAQ") for n in range(5)
)
DECODERS: dict[str, Callable[[bytes], object]] = {
    file_names.INDEX: partial(decode_index, index_entries.decode_offset_entries),
    file_names.TIME_INDEX: partial(decode_index, index_entries.decode_time_entries),
    file_names.TXN_INDEX: index_entries.decode_aborted,
    file_names.LEADER_EPOCH_CHECKPOINT: checkpoints.decode_leader_epochs,
    file_names.PARTITION_METADATA_FILE: checkpoints.decode_partition_metadata,
    file_names.RECOVERY_POINT_CHECKPOINT: checkpoints.decode_offsets,
    file_names.META_PROPERTIES_FILE: checkpoints.decode_meta_properties,
}


def small_files() -> Iterator[Subject]:
    yield Subject("topics.json", partial(attempt_decoder, decode_topics_safely, TOPICS))
    root = broker_dirs.stage("transactions/final") / "log"
    for suffix, decode in DECODERS.items():
        for path in [path for path in sorted(root.rglob(f"*{suffix}")) if path.stat().st_size][:4]:
            yield Subject(f"{path.parent.name}/{path.name}", partial(attempt_decoder, decode, head_of(path)))
    for path in [path for path in sorted(root.rglob(f"*{file_names.SNAPSHOT}")) if path.stat().st_size][:4]:
        yield Subject(f"{path.parent.name}/{path.name}", partial(attempt_snapshot, path.read_bytes()))


def head_of(path: Path) -> bytes:
    return path.read_bytes()[:LOG_BYTES_MAX]


INTERNAL: dict[str, tuple[Callable[[bytes], Any], tuple[Callable[[bytes], Any], ...]]] = {
    internal_topics.GROUP_METADATA_TOPIC: (
        internal_topics.decode_group_key,
        (internal_topics.OffsetCommitValue.decode, internal_topics.GroupMetadataValue.decode),
    ),
    internal_topics.TRANSACTION_STATE_TOPIC: (
        internal_topics.decode_transaction_key,
        (internal_topics.TransactionLogValue.decode,),
    ),
}


def internal_records() -> Iterator[Subject]:
    """Their keys and values, of all kinds that a broker wrote, each damaged by itself."""
    for stage in ("transactions/final", "groups/final"):
        for topic, (key_decoder, value_decoders) in INTERNAL.items():
            keys, values = internal_strings(broker_dirs.stage(stage) / "log", topic)
            for decode, strings in ((key_decoder, keys), *((decoder, values) for decoder in value_decoders)):
                if strings:
                    yield Subject(
                        f"records of {topic}", partial(attempt_one_of, partial(internal_value, decode), strings)
                    )


def internal_strings(log_directory: Path, topic: str) -> tuple[list[bytes], list[bytes]]:
    keys: set[bytes] = set()
    values: set[bytes] = set()
    for path in sorted(log_directory.glob(f"{topic}-*/*.log")):
        found = read_log(path.read_bytes())
        keys |= {key for _, _, key, *_ in found if key}
        values |= {value for _, _, _, value, *_ in found if value}
    return sorted(keys), sorted(values)


def attempt_one_of(decode: Callable[[bytes], object], strings: list[bytes], chance: Random) -> str:
    return attempt_decoder(decode, chance.choice(strings), chance)


def subjects() -> list[Subject]:
    """All of them; a few are rarer, for they take longer."""
    return [*logs(), *inner_subjects(), *small_files(), *internal_records(), *bombs()]
