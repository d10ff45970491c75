"""Secrets in options, addresses and settings: they are in no log, no error, no plan and no metric."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_commitlog.mirror.brokers.admin import Admin
from pyspark_commitlog.mirror.brokers.cluster import Cluster
from pyspark_commitlog.mirror.brokers.leader import PartitionLeader
from pyspark_commitlog.mirror.errors import MirrorError
from pyspark_commitlog.pipeline.delta.command import arguments as exporting
from pyspark_commitlog.pipeline.mirror import command_line as mirroring
from pyspark_commitlog.pipeline.mirror.from_kafka import Following
from pyspark_commitlog.pipeline.read.options import ReadOptions
from pyspark_commitlog.pipeline.write.targets import ProducerSettings
from pyspark_commitlog.storage import InvalidConfigError, LogManager
from tests.support.logs.building import records

SECRET = "s3cr3t-w0rd"
# As people bring them along from Spark's Kafka source and sink.
OPTIONS = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.jaas.config": f'org.apache.PlainLoginModule required username="u" password="{SECRET}";',
    "kafka.ssl.truststore.password": SECRET,
    "kafka.ssl.keystore.key": SECRET,
}
CLIENT = {"sasl.plain.password": SECRET, "ssl.password": SECRET, "sasl.plain.username": "u"}
JOB = ["--bootstrap-servers", "127.0.0.1:1", "--log-dir", "d", "--topics", "t"]


@pytest.fixture
def log(log_dir: str) -> str:
    with LogManager.open(log_dir, create=True) as manager:
        manager.create_topic("t", partitions=1)
        manager.open_log("t", 0).append_records(records([b"a"]))
    return log_dir


class TestSpark:
    def test_options_of_a_broker_are_in_no_log_plan_and_reader(
        self, spark: SparkSession, log: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with caplog.at_level(logging.DEBUG, "pyspark_commitlog"):
            frame = spark.read.format("commitlog").options(**OPTIONS, subscribe="t").load(log)
            frame.explain(extended=True)
            assert frame.count() == 1
            parsed = ReadOptions.parse({**OPTIONS, "path": log, "subscribe": "t"})
            parsed.log_notices()
        told = [
            caplog.text,
            *capfd.readouterr(),
            repr(parsed),
            str(parsed.notices),
            pickle.dumps(parsed).decode("latin-1"),
        ]
        assert not [text for text in told if SECRET in text]
        assert "kafka.sasl.jaas.config" in caplog.text

    def test_errors_name_options_without_their_values(self, spark: SparkSession, log: str) -> None:
        for more in {"kafka.isolation.level": "x"}, {"subscribes": "t"}, {"startingOffsets": "x"}:
            with pytest.raises(PySparkException) as told:
                spark.read.format("commitlog").options(**OPTIONS, **{"subscribe": "t", **more}).load(log).count()
            assert SECRET not in str(told.value)

    def test_settings_of_a_producer_are_kept_without_what_is_not_ours(self) -> None:
        settings = ProducerSettings.parse(OPTIONS)
        assert SECRET not in repr(settings)
        assert SECRET.encode() not in pickle.dumps(settings)


class TestMirror:
    def test_secrets_reach_the_client_and_no_repr(self, tmp_path: Path) -> None:
        cluster = pickle.loads(pickle.dumps(Cluster.parse("h:1", CLIENT)))
        assert cluster.settings["ssl_password"] == SECRET
        assert cluster.settings["sasl_plain_username"] == "u"
        for each in cluster, cluster.settings, Following(cluster, "d", False), [cluster.settings["ssl_password"]]:
            assert SECRET not in repr(each)
            assert SECRET not in f"{each!s}"
        assert repr(cluster.settings["sasl_plain_username"]) == "'u'"

    @pytest.mark.parametrize("use", [Admin, lambda cluster: PartitionLeader(cluster, "t", 0).bounds()])
    def test_unreachable_broker_is_reported_without_secrets_in_any_log(
        self, use: object, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pyspark_commitlog.mirror.brokers.patience.PATIENCE_S", 0.1)
        monkeypatch.setattr("pyspark_commitlog.mirror.brokers.connections.TIMEOUT_MS", 100)
        quick = {"request.timeout.ms": 200, "bootstrap.timeout.ms": 200}
        settings = {**CLIENT, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        cluster = Cluster.parse("127.0.0.1:1", settings)
        cluster.settings.update({name.replace(".", "_"): value for name, value in quick.items()})
        with caplog.at_level(logging.DEBUG), pytest.raises(MirrorError) as told:
            use(cluster)  # type: ignore[operator]
        assert SECRET not in str(told.value)
        assert SECRET not in caplog.text

    def test_settings_come_from_a_file_and_the_command_line_takes_precedence(self, tmp_path: Path) -> None:
        file = tmp_path / "client.properties"
        file.write_text(f"# of the client\n! too\n\nssl.password = {SECRET}=\nsecurity.protocol=SSL\n")
        options = mirroring.parser("").parse_args(
            ["from-kafka", *JOB, "--client-config", str(file), "--client", "security.protocol=SASL_SSL"]
        )
        cluster = mirroring._cluster(options)
        assert cluster.settings["ssl_password"] == f"{SECRET}="
        assert cluster.settings["security_protocol"] == "SASL_SSL"

    @pytest.mark.parametrize(
        ("lines", "told"),
        [
            (f"ssl.password {SECRET}", r"client.properties 'ssl\.password \*\*\*'"),
            (f"ssl.passwort={SECRET}", "unknown client setting 'ssl_passwort'.*ssl_password"),
            (None, "client.properties cannot be read: No such file"),
        ],
    )
    def test_wrong_settings_are_reported_without_secrets(self, tmp_path: Path, lines: str | None, told: str) -> None:
        file = tmp_path / "client.properties"
        if lines is not None:
            file.write_text(lines)
        options = mirroring.parser("").parse_args(["from-kafka", *JOB, "--client-config", str(file)])
        with pytest.raises(InvalidConfigError, match=told) as error:
            mirroring._cluster(options)
        assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--registy", f"http://u:{SECRET}@registry"],
        ["--clients", f"sasl.plain.password={SECRET}"],
        ["--clients", "sasl.plain.password", SECRET],
        [f"--sasl.jaas.config={SECRET} {SECRET}"],
    ],
)
def test_wrong_arguments_of_a_job_are_reported_without_secrets(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    required = ["--log-dir", "d", "--topic", "t", "--table", "t", "--checkpoint", "c"]
    for parser, given in (
        (exporting.parser(""), ["to-table", *required]),
        (mirroring.parser(""), ["from-kafka", *JOB]),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args([*given, *arguments])
        told = capsys.readouterr().err
        assert "unrecognized arguments" in told
        assert SECRET not in told
