"""The command line of a mirror between clusters."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from threading import Timer

import pytest

from pyspark_commitlog.mirror.errors import MirrorError
from pyspark_commitlog.mirror.run import Mirror
from pyspark_commitlog.pipeline.mirror.between_clusters import run_between_clusters
from pyspark_commitlog.pipeline.mirror.command_line import parser
from pyspark_commitlog.storage import InvalidConfigError
from tests.mirror.support import contents, fill, numbered, place


def file_of(path: Path, settings: Mapping[str, str]) -> str:
    path.write_text("# a comment\n" + "".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def run(*arguments: str) -> None:
    run_between_clusters(parser("").parse_args(["between-clusters", *arguments]))


def usual(tmp_path: Path, **source: str) -> list[str]:
    given = {"group.id": "one", "bootstrap.servers": "127.0.0.1:9", **source}
    consumer = file_of(tmp_path / "consumer", given)
    producer = file_of(tmp_path / "producer", {"log.dir": str(tmp_path / "target")})
    return ["--consumer.config", consumer, "--producer.config", producer]


def test_sources_and_target_come_from_files_and_each_partition_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "source", "flights", numbered(0, 10), partitions=2)
    with place(tmp_path / "source") as source:
        given = usual(tmp_path, **{"bootstrap.servers": source.bootstrap})
        run(*given, "--blacklist", "orders", "--num.streams", "2", "--config", "retention.ms=-1")
    assert contents(tmp_path / "target", "flights")[0] == numbered(0, 10)
    assert capsys.readouterr().out == "one flights-0: up to offset 10\n"


def test_a_signal_stops_a_lasting_mirror(tmp_path: Path) -> None:
    fill(tmp_path / "source", "flights", numbered(0, 10))
    before = signal.getsignal(signal.SIGTERM)
    with place(tmp_path / "source") as source:
        given = usual(tmp_path, **{"bootstrap.servers": source.bootstrap})
        Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        run(*given, "--whitelist", ".*", "--follow", "1")
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_before_the_ends_of_the_topics_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "source", "flights", numbered(0, 10))
    given = usual(tmp_path)
    file_of(tmp_path / "consumer", {"group.id": "one", "log.dir": str(tmp_path / "source")})
    run_mirror = Mirror.run

    def stopped(mirror: Mirror) -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # its handler runs before the next line
        run_mirror(mirror)

    monkeypatch.setattr(Mirror, "run", stopped)
    with pytest.raises(MirrorError, match="stopped before the ends of the topics: the next run continues there"):
        run(*given, "--whitelist", ".*")
    monkeypatch.undo()
    run(*given, "--whitelist", ".*")
    assert contents(tmp_path / "target", "flights")[0] == numbered(0, 10)


@pytest.mark.parametrize(
    ("arguments", "source", "message"),
    [
        ([], {}, "exactly one of --whitelist and --blacklist"),
        (["--whitelist", "a", "--blacklist", "b"], {}, "exactly one of --whitelist and --blacklist"),
        (["--whitelist", "a("], {}, "'a\\('.* is an invalid regular expression"),
        (["--whitelist", "a", "--num.streams", "0"], {}, r"--num\.streams is 0"),
        (["--whitelist", "a", "--queue.size", "0"], {}, r"--queue\.size is 0"),
        (["--whitelist", "a", "--partitions", "some"], {}, "--partitions is 'some'; it must be kept or by-key"),
        (["--whitelist", "a", "--partition-count", "3"], {}, "--partition-count is only for --partitions by-key"),
        (["--whitelist", "a"], {"group.id": ""}, r"a consumer\.config needs group\.id"),
        (["--whitelist", "a"], {"group.id": "a/b"}, "a/b"),
        (["--whitelist", "a"], {"auto.offset.reset": "now"}, r"auto\.offset\.reset is 'now'"),
        (["--whitelist", "a"], {"fetch.max.bytes": "-3"}, r"fetch\.max\.bytes is '-3'"),
        (["--whitelist", "a"], {"isolation.level": "read_uncommitted"}, "only committed records are read"),
        (["--whitelist", "a"], {"security.protocl": "SSL"}, "did you mean"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(
    tmp_path: Path, arguments: list[str], source: dict[str, str], message: str
) -> None:
    with pytest.raises((InvalidConfigError, ValueError), match=message):
        run(*usual(tmp_path, **source), *arguments)


def test_a_directory_takes_no_settings_of_a_client(tmp_path: Path) -> None:
    given = usual(tmp_path)
    file_of(tmp_path / "producer", {"log.dir": str(tmp_path / "target"), "acks": "all"})
    with pytest.raises(InvalidConfigError, match=r"with log\.dir takes transaction\.timeout\.ms only, not 'acks'"):
        run(*given, "--whitelist", "a")
