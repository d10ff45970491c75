"""``jobs/mirror.py``: what its exit code says of a partition that could not be mirrored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.gateway import pytest_plugin
from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.jobs.mirror import main
from pyspark_commitlog.storage import LogManager
from tests.support.logs.building import append


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(str(tmp_path / "gateway"), GatewayConfig.from_mapping(pytest_plugin.SETTINGS), create=True) as server:
        yield server


@pytest.mark.parametrize("pause", ["-1", "nan", "inf", "soon"])
@pytest.mark.parametrize("command", ["from-kafka", "to-kafka", "between-clusters"])
def test_a_pause_that_nobody_can_wait_is_wrong_usage(
    command: str, pause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = ("--consumer.config", "c", "--producer.config", "p", "--whitelist", "t")
    given = needed if command == "between-clusters" else ("--bootstrap-servers", "h:1", "--log-dir", "l", "-t", "t")
    with pytest.raises(SystemExit) as ended:
        main([command, *given, f"--follow={pause}"])
    assert ended.value.code == 2
    assert f"'{pause}' is not a number of seconds" in capsys.readouterr().err


def test_damage_here_ends_a_mirror_with_3_and_what_kafka_has_of_others_with_1(
    gateway: Gateway, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        for topic in ("damaged", "sound"):
            manager.create_topic(topic, partitions=1)
            append(manager.open_log(topic, 0), b"a")
    path = next((tmp_path / "log/damaged-0").glob("*.log"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    given = ["to-kafka", "--bootstrap-servers", gateway.bootstrap_servers, "--log-dir", str(tmp_path / "log")]
    assert main([*given, "--topics", "sound,damaged"]) == 3
    printed = capsys.readouterr()
    assert printed.out == "sound-0: offsets 0 to 0\n"
    assert printed.err.startswith(f"damaged-0: {path}, position 0: ")
    with LogManager.open(gateway.log_dir) as manager:  # another producer wrote to the topic there
        append(manager.open_log("sound", 0), b"other", b"others")
    assert main([*given, "--topics", "sound"]) == 1
