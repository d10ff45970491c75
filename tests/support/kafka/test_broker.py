"""Each helper is held against what another of Kafka's own programs says about the same bytes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kafka.broker import (
    CLEAN_SHUTDOWN,
    Action,
    Broker,
    BrokerError,
    Isolation,
    JavaError,
    ProducerRecord,
    SendOffsets,
    Step,
    Topic,
    create_topics,
    dump_log,
    java_consume,
    java_produce,
    mount,
)

pytestmark = pytest.mark.only_all
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST_LOG = "00000000000000000000.log"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker.start()


def first_log(broker: Broker, topic: str, partition: int = 0) -> Path:
    return broker.log_dir / f"{topic}-{partition}" / FIRST_LOG


def values(broker: Broker, topic: str, isolation: Isolation = "read_committed") -> list[bytes | None]:
    return [record.value for record in java_consume(broker.bootstrap, topic, isolation)]


def batch_fields(dump: str, field: str) -> list[str]:
    """The values of one field, a batch each, from the lines that describe batches."""
    return re.findall(rf"^baseOffset: .* {field}: (\S+)", dump, flags=re.MULTILINE)


# Producer, consumer, dump


def test_a_record_comes_back_as_it_was_sent(broker: Broker) -> None:
    create_topics(broker.bootstrap, {"echo": Topic(2)})
    sent = java_produce(
        broker.bootstrap,
        "echo",
        [
            ProducerRecord(b"\xff\x00", b"key", 1, 1_600_000_000_000, (("h", b"1"), ("h", None), ("", b""))),
            ProducerRecord(None, b"tombstone", 1, 0),
            ProducerRecord(b"", None, 0, 5),
        ],
    )
    assert [(where.partition, where.offset, where.timestamp_ms) for where in sent] == [
        (1, 0, 1_600_000_000_000),
        (1, 1, 0),
        (0, 0, 5),
    ]
    empty, full, tombstone = java_consume(broker.bootstrap, "echo")
    assert (empty.partition, empty.key, empty.value, empty.timestamp_type) == (0, None, b"", "CreateTime")
    assert (full.key, full.value, full.timestamp_ms) == (b"key", b"\xff\x00", 1_600_000_000_000)
    assert full.headers == (("h", b"1"), ("h", None), ("", b""))
    assert (tombstone.offset, tombstone.key, tombstone.value, tombstone.leader_epoch) == (1, b"tombstone", None, 0)


def test_every_codec_is_on_disk_as_asked_and_a_flush_ends_a_batch(broker: Broker) -> None:
    create_topics(broker.bootstrap, {f"codec-{codec}": Topic() for codec in CODECS})
    three_and_two: list[Action] = [
        *[ProducerRecord(b"v" * 99, partition=0)] * 3,
        Step.FLUSH,
        *[ProducerRecord(b"w", partition=0)] * 2,
    ]
    for codec in CODECS:
        java_produce(broker.bootstrap, f"codec-{codec}", three_and_two, {"compression.type": codec})
    logs = {codec: first_log(broker, f"codec-{codec}") for codec in CODECS}
    dumps = dump_log(logs.values()).files
    assert list(dumps) == list(logs.values())
    for codec, log in logs.items():
        assert dumps[log].stdout.startswith(f"Dumping {log}\n")
        assert batch_fields(dumps[log].stdout, "compresscodec") == [codec, codec]
        assert batch_fields(dumps[log].stdout, "count") == ["3", "2"]


def test_a_producer_is_idempotent_unless_told_otherwise(broker: Broker) -> None:
    create_topics(
        broker.bootstrap, {"idempotent": Topic(), "plain": Topic(1, {"message.timestamp.type": "LogAppendTime"})}
    )
    java_produce(broker.bootstrap, "idempotent", [ProducerRecord(b"a"), Step.FLUSH, ProducerRecord(b"b")])
    java_produce(broker.bootstrap, "plain", [ProducerRecord(b"a", timestamp_ms=1)], {"enable.idempotence": "false"})
    idempotent, plain = dump_log([first_log(broker, "idempotent"), first_log(broker, "plain")]).files.values()
    assert batch_fields(idempotent.stdout, "baseSequence") == ["0", "1"]
    assert batch_fields(plain.stdout, "producerId") == ["-1"]
    (record,) = java_consume(broker.bootstrap, "plain", start={0: 0})
    assert record.timestamp_type == "LogAppendTime"
    assert record.timestamp_ms > 1_600_000_000_000


def test_isolation_levels_differ_by_aborted_and_open_transactions(broker: Broker) -> None:
    create_topics(broker.bootstrap, {"txn": Topic()})
    java_produce(
        broker.bootstrap,
        "txn",
        [
            Step.BEGIN,
            ProducerRecord(b"committed"),
            SendOffsets("readers", {("txn", 0): 41}),
            Step.COMMIT,
            Step.BEGIN,
            ProducerRecord(b"aborted"),
            Step.ABORT,
            Step.BEGIN,
            ProducerRecord(b"open"),
            Step.VANISH,
        ],
        {"transactional.id": "writer"},
    )
    assert values(broker, "txn") == [b"committed"]
    assert values(broker, "txn", "read_uncommitted") == [b"committed", b"aborted", b"open"]
    log = dump_log([first_log(broker, "txn")], "--print-data-log").stdout
    assert re.findall(r"endTxnMarker: (\w+)", log) == ["COMMIT", "ABORT"]
    offsets = sorted(broker.log_dir.glob(f"__consumer_offsets-*/{FIRST_LOG}"))
    decoded = dump_log(offsets, "--offsets-decoder").stdout
    assert re.search(r'"group":"readers","topic":"txn","partition":0.*"offset":41', decoded)


def test_a_consumer_starts_where_it_is_told(broker: Broker) -> None:
    create_topics(broker.bootstrap, {"from": Topic(2)})
    java_produce(broker.bootstrap, "from", [ProducerRecord(b"%d" % n, partition=n % 2) for n in range(6)])
    assert [(r.partition, r.offset) for r in java_consume(broker.bootstrap, "from", start={1: 2})] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 2),
    ]


def test_an_error_of_the_java_client_tells_its_class(broker: Broker) -> None:
    with pytest.raises(JavaError, match=r"^produce: failed\n(.|\n)*TimeoutException: Topic nowhere"):
        java_produce(broker.bootstrap, "nowhere", [ProducerRecord(b"")], {"max.block.ms": "500"})


def test_where_the_dump_tool_throws_its_exception_stands_beside_that_file(tmp_path: Path) -> None:
    bad, good = tmp_path / "00000000000000000007.log", tmp_path / FIRST_LOG
    bad.write_bytes(bytes(100))
    good.write_bytes(b"")
    with pytest.raises(JavaError, match=r"00000000000000000007\.log: .*CorruptRecordException: Found record size 0"):
        dump_log([bad, good])
    dumps = dump_log([bad, good], check=False).files
    assert "CorruptRecordException" in (dumps[bad].failure or "")
    assert dumps[good].failure is None
    assert dumps[good].stdout == f"Dumping {good}\nLog starting offset: 0\n"


def test_the_dump_tool_complains_apart_from_what_it_prints(tmp_path: Path) -> None:
    (tmp_path / FIRST_LOG).write_bytes(b"")
    (tmp_path / "00000000000000000000.index").write_bytes(b"")
    stray = tmp_path / "00000000000000000000.timeindex"
    stray.write_bytes((1_600_000_000_000).to_bytes(8, "big") + (3).to_bytes(4, "big"))
    dump = dump_log([stray])
    assert dump.stdout == f"Dumping {stray}\ntimestamp: 1600000000000 offset: 3\n"
    assert dump.stderr.splitlines()[-1] == "Indexed offset: 3, found log offset: -1"


def test_a_flag_that_the_dump_tool_does_not_know_fails_with_its_words(tmp_path: Path) -> None:
    (tmp_path / FIRST_LOG).write_bytes(b"")
    with pytest.raises(JavaError, match="no-such-flag is not a recognized option"):
        dump_log([tmp_path / FIRST_LOG], "--no-such-flag")


def test_a_path_with_a_comma_is_refused_before_the_tool_splits_it() -> None:
    with pytest.raises(ValueError, match="without commas"):
        dump_log([Path("a,b.log")])


# The broker's life


def test_a_clean_stop_leaves_its_mark_a_kill_does_not_and_both_keep_the_records(broker: Broker) -> None:
    create_topics(broker.bootstrap, {"kept": Topic()})
    java_produce(broker.bootstrap, "kept", [ProducerRecord(b"1"), Step.FLUSH, ProducerRecord(b"2")])
    bootstrap = broker.bootstrap
    broker.stop()
    assert not broker.running
    assert (broker.log_dir / CLEAN_SHUTDOWN).exists()
    broker.start()
    assert broker.problems() == []
    broker.kill()
    assert not (broker.log_dir / CLEAN_SHUTDOWN).exists()
    broker.start()
    assert "Recovering" in broker.log_text()
    assert broker.bootstrap == bootstrap
    assert values(broker, "kept") == [b"1", b"2"]


def test_a_broker_is_not_started_twice(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="runs already"):
        broker.start()


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with (
        Broker(tmp_path) as broker,
        pytest.raises(BrokerError, match=r"ended with status 1 (.|\n)*log\.segment\.bytes"),
    ):
        broker.start(props={"log.segment.bytes": "1"})
    with pytest.raises(BrokerError, match="does not run"):
        broker.stop()


def test_a_copy_of_the_log_directory_needs_no_file_that_is_just_being_renamed(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.log_dir.mkdir()
    for name in (".lock", "meta.properties"):
        (broker.log_dir / name).touch()
    (broker.log_dir / "log-start-offset-checkpoint.tmp").symlink_to("gone")  # listed, and not there to be read
    copy = broker.copy_log_dir(tmp_path / "copy")
    assert [path.name for path in copy.iterdir()] == ["meta.properties"]


# Mounting


@pytest.fixture
def written(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A topic no broker knows, and a directory that holds it: written by the broker under another name, then copied.

    The indexes are emptied: those of a live segment are padded with zeros, which no log closed in order has.
    """
    topic = re.sub(r"\W", "-", request.node.name)[:60]
    create_topics(broker.bootstrap, {f"orig-{topic}": Topic(2)})
    steps: list[Action] = []
    for n in range(10):
        steps += [ProducerRecord(b"%d" % n, partition=n % 2), Step.FLUSH]
    java_produce(broker.bootstrap, f"orig-{topic}", steps)
    for partition in range(2):
        (copy := tmp_path / f"{topic}-{partition}").mkdir()
        shutil.copy(first_log(broker, f"orig-{topic}", partition), copy)
        for index in ("index", "timeindex"):
            (copy / FIRST_LOG).with_suffix(f".{index}").touch()
    return topic, tmp_path


def checkpoint(broker: Broker, name: str) -> dict[tuple[str, int], int]:
    lines = (broker.log_dir / name).read_text().splitlines()[2:]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in map(str.split, lines)}


def test_a_mounted_directory_is_served_and_goes_on(broker: Broker, written: tuple[str, Path]) -> None:
    topic, source = written
    (source / "recovery-point-offset-checkpoint").write_text(f"0\n2\n{topic} 0 5\n{topic} 1 5\n")
    mount(broker, source, {topic: {"retention.ms": "-1"}})
    assert broker.problems() == []
    assert not list(broker.log_dir.glob("*-stray"))
    assert [(r.partition, r.offset, r.value) for r in java_consume(broker.bootstrap, topic)] == [
        (n % 2, n // 2, b"%d" % n) for n in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    ]
    (sent,) = java_produce(broker.bootstrap, topic, [ProducerRecord(b"next", partition=1)])
    assert sent.offset == 5
    assert checkpoint(broker, "recovery-point-offset-checkpoint")[topic, 0] == 5
    assert values(broker, f"orig-{topic}", "read_uncommitted")


def test_a_mounted_directory_is_recovered_without_the_mark_of_a_clean_stop(
    broker: Broker, written: tuple[str, Path]
) -> None:
    topic, source = written
    torn = source / f"{topic}-0" / FIRST_LOG
    os.truncate(torn, torn.stat().st_size - 1)
    mount(broker, source, {topic: {}}, clean=False)
    assert values(broker, topic) == [b"0", b"2", b"4", b"6", b"1", b"3", b"5", b"7", b"9"]
    assert any(f"partition={topic}-0" in problem for problem in broker.problems())


def test_a_directory_with_a_partition_missing_is_not_mounted(broker: Broker, written: tuple[str, Path]) -> None:
    topic, source = written
    shutil.rmtree(source / f"{topic}-0")
    with pytest.raises(ValueError, match=r"must be 0, 1, 2, ..., found \[1\]"):
        mount(broker, source, {topic: {}})
    assert broker.running
