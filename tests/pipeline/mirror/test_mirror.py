"""Mirrors of a real broker's topics: unchanged into a log directory, and back into Kafka."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient

from pyspark_commitlog.mirror.brokers.cluster import Cluster
from pyspark_commitlog.mirror.brokers.leader import PartitionLeader
from pyspark_commitlog.mirror.errors import MirrorError
from pyspark_commitlog.pipeline.mirror import command_line as arguments, from_kafka, to_kafka
from pyspark_commitlog.pipeline.mirror.from_kafka import Following, follow
from pyspark_commitlog.pipeline.mirror.mirrored import Mirrored
from pyspark_commitlog.pipeline.mirror.to_kafka import Sending, send
from pyspark_commitlog.pipeline.write.targets import ProducerSettings
from pyspark_commitlog.storage import (
    GroupOffsets,
    HeadersColumn,
    InvalidConfigError,
    Isolation,
    LogManager,
    alter_configs,
    delete_topic,
    in_this_process,
    topic_id,
)
from tests.pipeline.read.kafka_sources import Batches, Sources
from tests.support.kafka.broker import (
    Broker,
    Consumed,
    ProducerRecord,
    Step,
    Topic,
    create_topics,
    java_consume,
    java_produce,
)
from tests.support.logs.building import NOW_MS, records
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.spark.delta_jars import small_conf
from tests.support.spark.kafka_source import delete_records
from tests.support.stores.filling import make_topic, write
from tests.support.stores.served import ServedStores

ROOT = Path(__file__).parents[3]
FROM_BEGINNING = {"auto.offset.reset": "earliest"}
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1"}  # or the broker would compact what a test looks at
UNCOMPRESSED = ProducerSettings.parse({}).compression
TYPES = {0: "CreateTime", 1: "LogAppendTime"}


class Seen(NamedTuple):
    """A record, as any reader returns it."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@pytest.fixture(scope="module")
def broker(sources: Sources) -> Broker:
    return sources.broker


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Cluster:
    return Cluster.parse(broker.bootstrap, {})


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    return directory_with_internal_topics(tmp_path / "log")


def in_kafka(broker: Broker, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Seen]:
    return [_seen(each) for each in java_consume(broker.bootstrap, topic, isolation.value, props=FROM_BEGINNING)]


def _seen(each: Consumed) -> Seen:
    times = (each.timestamp_ms, each.timestamp_type)
    return Seen(each.partition, each.offset, *times, each.key, each.value, each.headers)


def in_log(log_dir: str, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[Seen]:
    with LogManager.open(log_dir) as manager:
        return [
            seen for number in manager.topic(topic).partitions for seen in _partition(manager, topic, number, isolation)
        ]


def _partition(manager: LogManager, topic: str, number: int, isolation: Isolation) -> Iterator[Seen]:
    reader = manager.open_reader(topic, number)
    end = reader.end_offset(isolation)
    for piece in reader.records(reader.log_start_offset, end, isolation=isolation):
        assert piece.keys is not None
        assert piece.values is not None
        headers = [()] * len(piece) if piece.headers is None else list(_headers(piece.headers))
        times = zip(piece.timestamps.tolist(), map(TYPES.get, piece.timestamp_types.tolist()), strict=True)
        columns = (piece.offsets.tolist(), times, piece.keys.to_list(), piece.values.to_list(), headers)
        for offset, (timestamp, kind), key, value, pairs in zip(*columns, strict=True):
            yield Seen(number, offset, timestamp, kind, key, value, pairs)


def _headers(column: HeadersColumn) -> Iterator[tuple[tuple[str, bytes | None], ...]]:
    keys, values, offsets = column.keys.to_list(), column.values.to_list(), column.offsets.tolist()
    for first, last in pairwise(offsets):
        yield tuple((key.decode(), value) for key, value in zip(keys[first:last], values[first:last], strict=True))


def mirror(cluster: Cluster, log_dir: str, *topics: str, **more: bool) -> list[Mirrored]:
    return list(follow(Following(cluster, log_dir, **more), topics, in_this_process))


def mirror_back(cluster: Cluster, log_dir: str, topic: str, target: str, **more: bool) -> list[Mirrored]:
    sending = Sending(cluster, log_dir, topic, target, UNCOMPRESSED, **more)
    return list(send(sending, in_this_process, configs=KEPT))


def produce(broker: Broker, topic: str, *values: bytes | None, **more: object) -> None:
    java_produce(broker.bootstrap, topic, [ProducerRecord(each, b"key", 0, NOW_MS) for each in values], **more)  # type: ignore[arg-type]


class TestFromKafka:
    @pytest.mark.parametrize("topic", ["plain", "append-time", "txn", "gap", "compacted", "empty"])
    def test_log_has_what_kafka_has_and_the_same_end(
        self, broker: Broker, cluster: Cluster, log_dir: str, topic: str
    ) -> None:
        assert [each.error for each in mirror(cluster, log_dir, topic) if each.error] == []
        for isolation in Isolation:
            assert in_log(log_dir, topic, isolation) == in_kafka(broker, topic, isolation)
        with LogManager.open(log_dir) as manager:
            for number in manager.topic(topic).partitions:
                reader = manager.open_reader(topic, number)
                with PartitionLeader(cluster, topic, number) as leader:
                    assert (reader.log_start_offset, reader.log_end_offset) == leader.bounds()

    def test_files_have_the_same_bytes_as_the_brokers(self, broker: Broker, cluster: Cluster, log_dir: str) -> None:
        mirror(cluster, log_dir, "txn", "compacted")
        for partition in ("txn-0", "txn-1", "compacted-0"):
            assert log_bytes(Path(log_dir), partition) == log_bytes(broker.log_dir, partition)

    def test_topic_has_the_same_settings_and_id_as_in_kafka(self, cluster: Cluster, log_dir: str) -> None:
        mirror(cluster, log_dir, "compacted", "append-time")
        with LogManager.open(log_dir) as manager:
            compacted, append_time = manager.topic("compacted"), manager.topic("append-time")
            assert compacted.configs["cleanup.policy"] == "compact"
            assert append_time.configs["message.timestamp.type"] == "LogAppendTime"
            assert topic_id(manager, compacted) != topic_id(manager, append_time)

    def test_next_round_brings_only_what_is_new_and_a_new_partition_too(
        self, broker: Broker, cluster: Cluster, log_dir: str
    ) -> None:
        create_topics(broker.bootstrap, {"grows": Topic(1)})
        produce(broker, "grows", b"1", b"2")
        assert mirror(cluster, log_dir, "grows") == [Mirrored("grows", 0, 0, 2)]
        assert mirror(cluster, log_dir, "grows") == [Mirrored("grows", 0, 2, 2)]
        produce(broker, "grows", b"3")
        add_partition(broker, "grows", 2)
        java_produce(broker.bootstrap, "grows", [ProducerRecord(b"4", b"key", 1, NOW_MS)])
        assert mirror(cluster, log_dir, "grows") == [Mirrored("grows", 0, 2, 3), Mirrored("grows", 1, 0, 1)]
        assert in_log(log_dir, "grows") == in_kafka(broker, "grows")

    def test_mirror_resumes_after_a_kill_anywhere_and_two_at_once_do_no_harm(
        self, broker: Broker, cluster: Cluster, log_dir: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A second mirror runs between a fetch and its append, and a kill comes before or after an append."""
        chance, fetched = random.Random(3), from_kafka.append_fetched
        monkeypatch.setattr(from_kafka, "FETCH_BYTES", 300)  # about a batch a fetch

        class Killed(BaseException):
            pass

        def append(*arguments: object) -> bool:
            what = chance.choice(["kill before", "kill after", "another mirror", "nothing"])
            if what == "kill before":
                raise Killed
            if what == "another mirror":
                with monkeypatch.context() as patch:
                    patch.setattr(from_kafka, "append_fetched", fetched)
                    mirror(cluster, log_dir, "plain")
            found = fetched(*arguments)  # type: ignore[arg-type]
            if what == "kill after":
                raise Killed
            return found

        monkeypatch.setattr(from_kafka, "append_fetched", append)
        runs, is_done = 0, False
        while not is_done:
            runs += 1
            try:
                mirror(cluster, log_dir, "plain")
                is_done = True
            except Killed:
                continue
        assert runs > 2
        assert in_log(log_dir, "plain") == in_kafka(broker, "plain")

    def test_records_deleted_before_they_were_mirrored_are_an_error_or_skipped(
        self, broker: Broker, cluster: Cluster, log_dir: str
    ) -> None:
        create_topics(broker.bootstrap, {"deleted": Topic(1)})
        produce(broker, "deleted", b"0", b"1")
        mirror(cluster, log_dir, "deleted")
        for number in range(2, 8):
            produce(broker, "deleted", b"%d" % number)
        delete_records(broker, "deleted", 0, before=5)
        (told,) = mirror(cluster, log_dir, "deleted")
        assert "begins at 5, but its mirror ends at 2" in (told.error or "")
        assert mirror(cluster, log_dir, "deleted", allow_data_loss=True) == [Mirrored("deleted", 0, 2, 8)]
        assert [each.value for each in in_log(log_dir, "deleted")] == [b"0", b"1", b"5", b"6", b"7"]

    def test_topic_not_created_by_mirroring_or_recreated_in_kafka_is_refused(
        self, broker: Broker, cluster: Cluster, log_dir: str
    ) -> None:
        with LogManager.open(log_dir) as manager:
            manager.create_topic("plain", partitions=3)
        with pytest.raises(MirrorError, match="deleted and created again"):
            mirror(cluster, log_dir, "plain")

    def test_unknown_topic_and_setting_are_named(self, cluster: Cluster, log_dir: str) -> None:
        with pytest.raises(MirrorError, match=r"no topic 'plane'; it has append-time, .*plain"):
            mirror(cluster, log_dir, "plane")
        with pytest.raises(InvalidConfigError, match="did you mean 'security_protocol'"):
            Cluster.parse("localhost:9", {"security.protocoll": "SSL"})


class TestToKafka:
    def test_a_log_on_an_object_store_is_sent_each_record_once_though_a_run_is_killed(
        self, broker: Broker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Killed(BaseException):
            pass

        def commit(_offsets: object, _sending: object, positions: object) -> None:
            if positions:
                raise Killed

        url, values = "s3://memory/logs", [b"%d" % number for number in range(12)]
        log = ServedStores(monkeypatch).create(url)
        make_topic(log, "t", 2)
        for first in (0, 4, 8):
            some = values[first : first + 4]
            write(log, "t", {0: [records(some[:3], keys=[b"key"] * 3)], 1: [records(some[3:], keys=[b"key"])]})
            if first == 4:
                with monkeypatch.context() as patch:
                    patch.setattr(to_kafka, "_commit", commit)
                    with pytest.raises(Killed):
                        mirror_back(cluster, url, "t", "from-store")
            assert [each.error for each in mirror_back(cluster, url, "t", "from-store")] == [None, None]
            log.catch_up()
        assert in_kafka(broker, "from-store") == in_log(url, "t")
        assert len(in_log(url, "t")) == 12

    @pytest.fixture
    def name(self, request: pytest.FixtureRequest) -> str:
        """The name of a new topic."""
        return re.sub("[^a-z]+", "-", request.node.name)

    @pytest.mark.parametrize("topic", ["plain", "append-time", "txn", "compacted"])
    def test_new_topic_has_the_committed_records_in_their_order(
        self, broker: Broker, cluster: Cluster, log_dir: str, topic: str, name: str
    ) -> None:
        mirror(cluster, log_dir, topic)
        with LogManager.open(log_dir) as manager:
            alter_configs(manager, topic, {"max.decompressed.bytes": "9999999"})  # which Kafka does not know
        assert [each.error for each in mirror_back(cluster, log_dir, topic, name) if each.error] == []
        assert [each.next_offset - each.first_offset for each in mirror_back(cluster, log_dir, topic, name)] == [
            0 for _ in partitions(log_dir, topic)
        ]
        found, expected = in_kafka(broker, name), in_log(log_dir, topic)
        assert [without_offset(each) for each in found] == [without_offset(each) for each in expected]
        if topic == "plain":  # the only one without gaps
            assert found == expected

    @pytest.mark.parametrize("limiting", ["segment.bytes", "max.message.bytes"])
    def test_batches_fit_the_limits_of_the_topic_in_kafka(
        self, broker: Broker, cluster: Cluster, log_dir: str, name: str, limiting: str
    ) -> None:
        with LogManager.open(log_dir) as manager:
            manager.create_topic("t", partitions=1, configs={limiting: "20000"})
            manager.open_log("t", 0).append_records(records([b"%d" % number * 300 for number in range(100)]))
        for _ in range(2):  # the second run finds the topic
            assert [each.error for each in mirror_back(cluster, log_dir, "t", name)] == [None]
        assert [each.value for each in in_kafka(broker, name)] == [b"%d" % number * 300 for number in range(100)]

    def test_mirror_killed_anywhere_resumes_where_kafka_ends(
        self, broker: Broker, cluster: Cluster, log_dir: str, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = [b"%d" % number for number in range(200)]
        with LogManager.open(log_dir) as manager:
            manager.create_topic("t", partitions=1)
            log = manager.open_log("t", 0)
            for first in range(0, 200, 10):
                log.append_records(records(values[first : first + 10]))
        chance, whole = random.Random(5), PartitionLeader.produce
        monkeypatch.setattr("pyspark_commitlog.pipeline.mirror.to_kafka.BATCH_BYTES", 100)

        class Killed(BaseException):
            pass

        def produce(leader: PartitionLeader, batch: bytes) -> int:
            when = chance.choice(["before", "after", *["never"] * 8])
            if when == "before":
                raise Killed
            found = whole(leader, batch)
            if when == "after":
                raise Killed
            return found

        monkeypatch.setattr(PartitionLeader, "produce", produce)
        runs, is_done = 0, False
        while not is_done:
            runs += 1
            try:
                mirror_back(cluster, log_dir, "t", name)
                is_done = True
            except Killed:
                continue
        assert runs > 2
        assert [each.value for each in in_kafka(broker, name)] == values

    def test_topic_with_foreign_records_is_refused_before_anything_is_sent(
        self, broker: Broker, cluster: Cluster, log_dir: str, name: str
    ) -> None:
        mirror(cluster, log_dir, "plain")
        with pytest.raises(MirrorError, match="mirror into a new topic"):
            mirror_back(cluster, log_dir, "plain", "plain")

    def test_record_of_another_producer_ends_the_mirror(
        self, broker: Broker, cluster: Cluster, log_dir: str, name: str
    ) -> None:
        mirror(cluster, log_dir, "append-time")
        mirror_back(cluster, log_dir, "append-time", name)
        produce(broker, name, b"foreign")
        (told,) = mirror_back(cluster, log_dir, "append-time", name)
        assert "another producer writes there" in (told.error or "")

    def test_progress_is_a_committed_offset_of_a_group(self, cluster: Cluster, log_dir: str, name: str) -> None:
        mirror(cluster, log_dir, "gap")
        mirror_back(cluster, log_dir, "gap", name)
        with LogManager.open(log_dir) as manager:
            found, id_ = GroupOffsets(manager).fetch(f"mirror-to-{name}"), manager.topic("gap").topic_id
        assert {place: (each.offset, each.metadata) for place, each in found.items()} == {
            ("gap", 0): (50, f'{{"targetOffset": 25, "topicId": "{id_}"}}'),
            ("gap", 1): (20, f'{{"targetOffset": 20, "topicId": "{id_}"}}'),
        }

    def test_topic_made_again_here_is_refused_or_its_records_follow(
        self, broker: Broker, cluster: Cluster, log_dir: str, name: str
    ) -> None:
        def make(*values: bytes) -> None:
            with LogManager.open(log_dir) as manager:
                manager.create_topic("t", partitions=1)
                manager.open_log("t", 0).append_records(records(values))

        make(b"old 0", b"old 1")
        assert [each.error for each in mirror_back(cluster, log_dir, "t", name)] == [None]
        with LogManager.open(log_dir) as manager:
            delete_topic(manager, "t")
        make(b"new 0", b"new 1", b"new 2")
        (told,) = mirror_back(cluster, log_dir, "t", name)
        assert re.search("topic 't' was deleted and made again in .* --allow-data-loss", told.error or "")
        for _ in range(2):
            assert [each.error for each in mirror_back(cluster, log_dir, "t", name, allow_data_loss=True)] == [None]
        expected = [b"old 0", b"old 1", b"new 0", b"new 1", b"new 2"]
        assert [each.value for each in in_kafka(broker, name)] == expected


def log_bytes(log_dir: Path, partition: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((log_dir / partition).glob("*.log")))


def partitions(log_dir: str, topic: str) -> tuple[int, ...]:
    with LogManager.open(log_dir) as manager:
        return manager.topic(topic).partitions


def without_offset(seen: Seen) -> Seen:
    return seen._replace(offset=-1, timestamp_type="")


def add_partition(broker: Broker, topic: str, total: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.create_partitions({topic: total})
    finally:
        admin.close()


def test_streaming_query_moves_from_kafka_to_the_mirror_with_its_checkpoint(
    sources: Sources, cluster: Cluster, log_dir: str, tmp_path: Path
) -> None:
    broker, batches, checkpoint = sources.broker, Batches(), tmp_path / "checkpoint"
    create_topics(broker.bootstrap, {"moves": Topic(1)})
    options = {"subscribe": "moves", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    transaction = [Step.BEGIN, ProducerRecord(b"1", b"key", 0), ProducerRecord(b"2", b"key", 0), Step.COMMIT]
    java_produce(broker.bootstrap, "moves", transaction, {"transactional.id": "moves"})
    batches.run(sources.stream("kafka", options), checkpoint)
    mirror(cluster, log_dir, "moves")
    mirrored = sources.spark.readStream.format("commitlog").options(**options)
    batches.run(mirrored.load(log_dir), checkpoint)  # ends behind the marker, where the checkpoint is
    produce(broker, "moves", b"3")
    mirror(cluster, log_dir, "moves")
    batches.run(mirrored.load(log_dir), checkpoint)
    assert [[(row.offset, bytes(row.value)) for row in rows] for rows in batches.rows] == [
        [(0, b"1"), (1, b"2")],
        [(3, b"3")],
    ]


def test_the_commands_of_the_page_copy_a_topic_there_and_back(broker: Broker, tmp_path: Path) -> None:
    create_topics(broker.bootstrap, {"flights": Topic(2)})
    java_produce(broker.bootstrap, "flights", [ProducerRecord(b"%d" % n, b"%d" % (n % 9)) for n in range(100)])
    (tmp_path / "jobs").symlink_to(ROOT / "jobs")
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(small_conf(tmp_path))}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    blocks = re.findall("```sh\n(.*?)```", (ROOT / "docs" / "mirroring.md").read_text(), re.DOTALL)
    commands = [each for each in blocks if "localhost:9092" in each]  # others are for clusters that are not here
    for command in commands:
        given = ["bash", "-c", command.replace("localhost:9092", broker.bootstrap)]
        done = subprocess.run(given, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == 2, done.stdout
    assert len(commands) == 2
    assert (
        in_kafka(broker, "copy") == in_log(str(tmp_path / "data" / "mirror"), "flights") == in_kafka(broker, "flights")
    )


def test_wrong_usage_of_the_job_exits_with_2_and_says_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    for given, told in [
        (["from-kafka", "--log-dir", "d", "--topics", "t"], "--bootstrap-servers"),
        (["sideways"], "from-kafka"),
    ]:
        with pytest.raises(SystemExit) as ended:
            arguments.parser("").parse_args(given)
        assert ended.value.code == 2
        assert told in capsys.readouterr().err
    to_kafka = ["to-kafka", "--bootstrap-servers", "b", "--log-dir", "d", "--topics", "a,b", "--target", "c"]
    with pytest.raises(InvalidConfigError, match="--target c is for a single topic, but --topics names a, b"):
        list(arguments.ROUNDS["to-kafka"](arguments.parser("").parse_args(to_kafka), ["a", "b"], in_this_process))
