"""``commitlog metrics``: a page for Prometheus, printed or served."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager
from tests.cli.in_process import commitlog
from tests.support.logs.building import append
from tests.support.logs.directories import directory_with_internal_topics
from tests.support.prometheus import Page


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Topic t with 3 records; group g has read one."""
    path = directory_with_internal_topics(tmp_path / "events")
    with LogManager.open(path) as manager:
        manager.create_topic("t", partitions=1)
        append(manager.open_log("t", 0), b"a", b"b", b"c")
        GroupOffsets(manager).commit("g", {("t", 0): CommittedOffset(1)})
    return path


def test_once_prints_the_metrics_and_exits(directory: str) -> None:
    done = commitlog("metrics", "--log-dir", directory, "--once", "--cluster-name", "north")
    assert (done.code, done.stderr) == (0, "")
    found = Page(done.stdout, "cluster_name", "group")
    assert found["kafka_consumergroup_group_lag"] == {("north", "g"): 2}
    assert found["commitlog_scrape_success"] == {("north",): 1}


@pytest.fixture
def served(directory: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a page, and the process that serves it."""
    program = (
        "import signal, sys\n"
        "from pyspark_commitlog.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background inherits its ignoring
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print('pyspark' in sys.modules)"
    )
    arguments = ["metrics", "--log-dir", directory, "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stderr is not None
            printed = re.fullmatch(r"(http://127\.0\.0\.1:\d+/metrics)\n", process.stderr.readline())
            assert printed is not None
            yield printed[1], process
        finally:
            process.kill()


def test_each_request_reads_the_directory_without_spark_and_ctrl_c_ends_the_server(
    directory: str, served: tuple[str, subprocess.Popen[str]]
) -> None:
    address, process = served

    def lag() -> dict[tuple[str, ...], float]:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return Page(answer.read().decode(), "cluster_name", "group")["kafka_consumergroup_group_lag"]

    assert lag() == {("events", "g"): 2}
    with LogManager.open(directory) as manager:
        append(manager.open_log("t", 0), b"d")
    assert lag() == {("events", "g"): 3}
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "False\n", "")


def test_a_port_that_is_taken_is_one_line(directory: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = commitlog("metrics", "--log-dir", directory, "--port", port, "--address", "127.0.0.1")
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


def test_a_missing_directory_is_reported_at_once() -> None:
    done = commitlog("metrics", "--log-dir", "/nowhere")
    assert (done.code, done.stdout, done.stderr) == (1, "", "commitlog: /nowhere: no such directory\n")


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--once"], "--log-dir"), (["--log-dir", ".", "--port", "70000"], "65535")]
)
def test_wrong_use_says_what_is_right(arguments: list[str], said: str) -> None:
    done = commitlog("metrics", *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr


def test_help_says_whose_metric_names_it_uses() -> None:
    assert "kafka-lag-exporter" in commitlog("metrics", "--help").stdout
