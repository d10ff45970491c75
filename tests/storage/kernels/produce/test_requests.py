"""Plain requests are found as the usual way reads them, and their answers are encoded as it encodes them."""

from __future__ import annotations

import time
from random import Random

import pytest
from crc32c import crc32c

from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.headers import RequestHeader, answer_header, parse_header
from pyspark_commitlog.protocol.produce import Produced, encode_produced, parse_produce
from pyspark_commitlog.protocol.reading import MalformedRequestError
from pyspark_commitlog.storage import (
    Codec,
    Found,
    FoundBatch,
    FoundFrame,
    LogConfig,
    LogStoreError,
    ProduceTables,
    check_batch,
    check_plain,
    surveyed_batch,
)
from pyspark_commitlog.storage.kernels.produce import columns
from tests.support.produce_pairs import CLIENTS, NOBODY, TOPICS, Requests, Silent, produce_frame, produced_batch

CONFIG = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
GZIPPED, TIGHT = LogConfig(compression_type="gzip"), LogConfig(max_message_bytes=2000, max_decompressed_bytes=2000)
CONFIGS = {"compacted": COMPACTED, "gzipped": GZIPPED, "tight": TIGHT}
KNOWN = {name: CONFIGS.get(name, CONFIG) for name in TOPICS if name not in ("stamped", "uncompressed")}


class Tables(ProduceTables):
    """Tables with partitions, and requests that are given to them."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[str, int]] = []
        for topic, config in KNOWN.items():
            for number in range(2 * CLIENTS):
                row = self.add_partition(topic.encode(), number)
                assert row == len(self.places)
                self.places.append((topic, number))
                self.set_limits(
                    row,
                    batch_bytes_max=config.batch_size_max,
                    needs_keys=config.compact,
                    before_ms=config.message_timestamp_before_max_ms,
                    after_ms=config.message_timestamp_after_max_ms,
                    codecs=[Codec.GZIP] if config is GZIPPED else list(Codec),
                )

    def take(self, *sent: bytes, frames_max: int = 64, now_ms: int | None = None) -> Found:
        """Finds the requests of connections that have sent these bytes."""
        self.begin(max(len(sent), 1))
        for data in sent:
            arrived = data[: len(self.room)]
            self.room[: len(arrived)] = arrived
            self.add_connection(len(arrived), frames_max)
        return self.find(int(time.time() * 1000) if now_ms is None else now_ms)


@pytest.fixture(name="tables", scope="module")
def fixture_tables() -> Tables:
    return Tables()


def is_plain(frame: bytes, now_ms: int) -> bool:
    """Whether the usual way would append all of a request as it is."""
    try:
        header = parse_header(frame)
        if header.key or not 3 <= header.version <= 11:
            return False
        asked = parse_produce(frame, header.body_at, header.version)
    except (MalformedRequestError, UnicodeDecodeError):
        return False
    name = asked.transactional_id
    if (name is not None and not (name and name.isascii())) or asked.acks not in (1, 0, -1) or not asked.partitions:
        return False
    places = [(each.topic, each.partition) for each in asked.partitions]
    if len(set(places)) < len(places) or any(each not in TABLE for each in places):
        return False
    if header.version < columns.ZSTD_FROM and any(has_zstd(each.records) for each in asked.partitions):
        return False
    return all(is_batch_plain(each.records, KNOWN[each.topic], now_ms, name) for each in asked.partitions)


def has_zstd(records: memoryview | None) -> bool:
    return records is not None and len(records) > 22 and records[22] & 7 == Codec.ZSTD


TABLE = {(topic, number) for topic in KNOWN for number in range(2 * CLIENTS)}


def is_batch_plain(records: memoryview | None, config: LogConfig, now_ms: int, transactional_id: str | None) -> bool:
    try:
        batch = check_batch(records or b"", config)
    except LogStoreError:
        return False
    is_of_kind = batch.is_transactional == (transactional_id is not None)
    return batch.header is not None and is_of_kind and batch.may_stay(config, now_ms)


def passes(tables: Tables, batch: FoundBatch, now_ms: int) -> bool:
    """Whether a batch passes what is left to the caller: its checksum, and the records of a compressed one."""
    data, config = tables.memory[batch.at : batch.at + batch.size], KNOWN[tables.places[batch.part][0]]
    checked = check_plain(data, config, None)
    if not batch.codec:
        assert checked in (None, surveyed_batch(data, config, batch.smallest_timestamp))
        return batch.crc == crc32c(data[21:])
    return checked is not None and checked.may_stay(config, now_ms)


def with_checksums(data: bytearray, found: Found) -> bytes:
    """The bytes of the first connection, with the checksums that the listed batches should have."""
    for each in found.batches:
        data[each.at + 17 : each.at + 21] = crc32c(data[each.at + 21 : each.at + each.size]).to_bytes(4)
    return bytes(data)


def requests(seed: int, count: int) -> list[bytes]:
    maker = Requests(Random(seed), seed % CLIENTS, [7, 8])
    return [maker.next(number) for number in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_a_request_is_listed_if_the_usual_way_would_store_it_as_it_is(tables: Tables, seed: int) -> None:
    """But for a few that are odd: a name with other letters, a topic that is named twice or without a partition."""
    now_ms, listed, odd = int(time.time() * 1000), 0, 0
    for request in requests(seed, 40):
        if len(request) > columns.FRAME_BYTES_MAX:
            continue
        found = tables.take(request, now_ms=now_ms)
        wanted = is_plain(request[4:], now_ms)
        if found.frames:
            assert wanted == all(passes(tables, each, now_ms) for each in found.batches)
            listed += 1
        else:
            odd += wanted
    assert listed > 5 * odd


def test_a_request_of_any_size_is_found_by_itself_as_among_others(tables: Tables) -> None:
    now_ms, large = int(time.time() * 1000), 0
    for request in (each for seed in range(6) for each in requests(seed, 40)):
        frame = memoryview(bytearray(request[4:]))
        with tables.reading(frame):
            found = tables.find_one(now_ms)
            if found.frames:
                assert is_plain(bytes(frame), now_ms) == all(passes(tables, each, now_ms) for each in found.batches)
        if len(frame) <= columns.FRAME_BYTES_MAX:
            among = tables.take(request, now_ms=now_ms)
            assert [each[1:5] for each in among.frames] == [each[1:5] for each in found.frames]
        large += len(frame) > columns.FRAME_BYTES_MAX and bool(found.frames)
    assert large > 3


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_request_is_listed_only_if_the_usual_way_would_take_it(tables: Tables, seed: int) -> None:
    chance, now_ms = Random(seed), int(time.time() * 1000)
    for request in requests(seed, 12):
        data = bytearray(request)
        for _ in range(chance.choice([1, 1, 2, 5])):
            data[chance.randrange(4, len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(4, len(data)) :]
            data[:4] = (len(data) - 4).to_bytes(4)
        found = tables.take(bytes(data), now_ms=now_ms)
        if found.frames:
            whole = with_checksums(data, found)
            found = tables.take(whole, now_ms=now_ms)
            assert is_plain(whole[4:], now_ms) == all(passes(tables, each, now_ms) for each in found.batches)


def test_requests_are_found_up_to_the_first_one_that_is_not_plain(tables: Tables) -> None:
    plain = [each for each in requests(1, 60) if tables.take(each).frames]
    other = next(each for each in requests(1, 60) if not tables.take(each).frames and len(each) < 60_000)
    found = tables.take(plain[0] + plain[1] + other + plain[2], plain[3] + plain[4][:-1])
    first, second = found.connections
    assert (first.frame_first, first.frame_stop, first.state) == (0, 2, tables.OTHER)
    assert first.stop == len(plain[0] + plain[1])
    assert (second.frame_first, second.frame_stop, second.state) == (2, 3, tables.PARTIAL)
    assert second.stop - second.start == len(plain[3])


def test_a_request_without_acks_gets_no_answer(tables: Tables) -> None:
    plain = [each for each in requests(1, 60) if tables.take(each).frames]
    silent = next(each for each in plain if isinstance(each, Silent))
    first, second, *_ = (each for each in plain if not isinstance(each, Silent))
    tables.take(first + silent + second)
    (answers,) = tables.answers()
    tables.take(first + second)
    assert tables.answers() == [answers]


def test_no_more_requests_are_found_than_a_connection_may_have(tables: Tables) -> None:
    plain = next(each for each in requests(1, 60) if tables.take(each).frames)
    found = tables.take(plain * 3, frames_max=2)
    assert (found.connections[0].frame_stop, found.connections[0].state) == (2, tables.FULL)


def test_a_partition_that_is_not_in_the_table_is_named(tables: Tables) -> None:
    made, _ = produced_batch(Random(3), 0, NOBODY, keyed=True, codec=Codec.NONE, damage="")
    data = produce_frame(Random(3), 1, [("lazy-other", [(0, made)])])
    connection = tables.take(data).connections[0]
    name = bytes(tables.memory[connection.name_at : connection.name_at + connection.name_bytes])
    assert name.endswith(b"-other")
    assert connection.state == tables.OTHER


def test_a_large_request_is_left_as_soon_as_its_length_is_there(tables: Tables) -> None:
    assert tables.take((70_000).to_bytes(4) + b"\0\0").connections[0].state == tables.OTHER
    assert tables.take((-1).to_bytes(4, signed=True)).connections[0].state == tables.OTHER


@pytest.mark.parametrize("seed", range(4))
def test_answers_are_encoded_as_the_usual_way_encodes_them(tables: Tables, seed: int) -> None:
    chance = Random(seed)
    sent = [each for each in requests(seed, 40) if tables.take(each).frames]
    found = tables.take(b"".join(sent[:5]), b"".join(sent[5:8]))
    offsets = [(chance.randrange(2**40), chance.randrange(2**40)) for _ in found.batches]
    for number, each in enumerate(offsets):
        tables.set_offset(number, *each)
    tables.set_frame_stop(1, found.connections[1].frame_stop - 1)

    def answer(frame: FoundFrame) -> bytes:
        if not frame.acks:
            return b""
        produced = [
            Produced(
                *tables.places[found.batches[at].part], base_offset=offsets[at][0], log_start_offset=offsets[at][1]
            )
            for at in range(frame.first, frame.stop)
        ]
        header = RequestHeader(ApiKey.PRODUCE, frame.version, frame.correlation_id, None, 0, is_served=True)
        data = answer_header(header) + encode_produced(produced, frame.version)
        return len(data).to_bytes(4) + data

    first, second = ([answer(each) for each in found.frames[:5]], [answer(each) for each in found.frames[5:-1]])
    answers = tables.answers()
    assert answers == [b"".join(first), b"".join(second)]
    for data, frames in zip(answers, (found.frames[:5], found.frames[5:-1]), strict=True):
        for frame in (each for each in frames if each.acks):
            for number, at in enumerate(tables.offset_positions(frame.first, frame.stop), frame.first):
                assert int.from_bytes(data[at : at + 8]) == offsets[number][0]
