"""The gateway looks after what it serves: a child process deletes and compacts."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Semaphore

import pytest

from pyspark_commitlog.gateway.children.maintenance import Maintenance
from pyspark_commitlog.gateway.cluster.maintainer import claim_maintenance
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving
from tests.support.logs.building import batch
from tests.support.waiting import soon

SOON = {"log_retention_check_interval_ms": 200}
OUT_OF_RANGE = 1


def fetched_code(client: WireClient, topic: str, offset: int) -> int:
    return client.ask(1, 11, **fetch_fields(topic, offset)).responses[0].partitions[0].error_code


def produce(client: WireClient, topic: str, records: bytes) -> None:
    done = client.ask(0, 9, **produce_fields(topic, records)).responses[0].partition_responses[0]
    assert not done.error_code


def child_of(log_dir: Path) -> int | None:
    """The process id of the child that maintains a gateway's directory."""
    found = subprocess.run(["pgrep", "-f", f"maintain .*{log_dir}"], capture_output=True, check=False).stdout
    return int(found.split()[0]) if found else None


def test_old_segments_are_deleted_while_clients_produce(tmp_path: Path) -> None:
    with serving(tmp_path / "log", **SOON) as gateway, WireClient(gateway) as client:
        create_topic(client, "orders", retention_bytes="1", retention_ms="-1", segment_bytes="1048576")
        create_topic(client, "kept", retention_ms="-1", segment_bytes="1048576")
        for _ in range(3):
            for topic in ("orders", "kept"):
                produce(client, topic, bytes(batch(b"x" * 700_000)))
        soon(lambda: fetched_code(client, "orders", 0) == OUT_OF_RANGE)
        assert fetched_code(client, "kept", 0) == 0
        produce(client, "orders", bytes(batch(b"next")))


@pytest.mark.parametrize(("cleaner", "enabled"), [(False, True), (True, False)])
def test_nothing_is_compacted_if_the_settings_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cleaner: bool, enabled: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "pyspark_commitlog.gateway.children.maintenance.Maintenance._maintain",
        lambda self: asked.append(self._settings()) or "",
    )
    settings = {**SOON, "log_cleaner_enable": cleaner, "commitlog_maintenance_enable": enabled}
    with serving(tmp_path / "log", **settings):
        if enabled:
            soon(lambda: bool(asked))
    assert asked[:1] == (['[retain]\nevery = "200 milliseconds"\n'] if enabled else [])


def test_a_failure_is_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    with serving(tmp_path / "log", commitlog_maintenance_enable=False) as gateway, WireClient(gateway) as client:
        create_topic(client, "orders")
        produce(client, "orders", bytes(batch(b"one")))
    shutil.rmtree(tmp_path / "log" / "orders-0")
    with serving(tmp_path / "log", **SOON) as gateway:
        soon(lambda: gateway.figures.snapshot().failed_maintenance > 0)
    assert any("maintenance of orders-0" in each for each in caplog.messages)


def test_a_child_that_was_killed_is_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path / "log", **SOON) as gateway:
        soon(lambda: child_of(tmp_path / "log") is not None)
        pid = child_of(tmp_path / "log")
        assert pid is not None
        os.kill(pid, 9)
        soon(lambda: gateway.figures.snapshot().failed_maintenance > 0)
    assert any("exit code -9" in each for each in caplog.messages)


def test_one_of_several_gateways_maintains_and_another_when_it_ends(tmp_path: Path) -> None:
    with ExitStack() as second:
        with serving(tmp_path / "log", node_id=1, **SOON) as first:
            soon(lambda: child_of(tmp_path / "log") is not None)
            other = second.enter_context(serving(tmp_path / "log", node_id=2, **SOON))
            second.enter_context(serving(tmp_path / "log", node_id=3, commitlog_maintenance_enable=False))
            assert not claim_maintenance(other.context.registry, 2)
            assert claim_maintenance(first.context.registry, 1)
            before = child_of(tmp_path / "log")
        soon(lambda: child_of(tmp_path / "log") not in (None, before))
        assert claim_maintenance(other.context.registry, 2)
        assert other.figures.snapshot().failed_maintenance == 0


def test_a_child_ends_with_the_claim_and_none_is_started_until_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyspark_commitlog.gateway.children.maintenance.FIRST_AFTER_S", 0.01)
    asked, failures = Semaphore(0), []
    has_claim = [True]

    def claim() -> bool:
        asked.release()
        return has_claim[0]

    with LogManager.open(str(tmp_path / "log"), create=True):
        pass
    maintenance = Maintenance(str(tmp_path / "log"), 10, compacts=True, failed=lambda: failures.append(1), claim=claim)
    maintenance.start()
    try:
        soon(lambda: child_of(tmp_path / "log") is not None)
        has_claim[0] = False
        maintenance.lose_claim()
        for _ in range(4):
            asked.acquire()
        assert child_of(tmp_path / "log") is None
        has_claim[0] = True
        soon(lambda: child_of(tmp_path / "log") is not None)
    finally:
        maintenance.stop()
    assert not failures
    assert not caplog.messages


@pytest.mark.parametrize("number", [9, 15])
def test_it_ends_with_the_gateway(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", "gateway"]
    settings = ["--log-dir", str(tmp_path / "log"), "--listen", "127.0.0.1:0"]
    server = subprocess.Popen([*command, *settings, "--config", "log.retention.check.interval.ms=100"])
    try:
        soon(lambda: child_of(tmp_path / "log") is not None)
    finally:
        server.send_signal(number)
        server.wait(60)
    soon(lambda: child_of(tmp_path / "log") is None)
