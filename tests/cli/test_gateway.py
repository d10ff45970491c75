"""``commitlog gateway`` as a program: it says where it listens, serves, and ends on SIGTERM."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog
from tests.support.logs import building


def test_it_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    program = "from pyspark_commitlog.cli import main; main()"
    arguments = ["gateway", "--log-dir", str(tmp_path / "log"), "--listen", "127.0.0.1:0"]
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().removeprefix("listening on ").strip()
            producer = Producer({"bootstrap.servers": address})
            producer.produce("t", b"value")
            assert producer.flush(60) == 0
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
            assert server.stderr is not None
            logged = [line.partition(" INFO ")[2] for line in server.stderr.read().splitlines()]
        finally:
            server.kill()
    served = rf"spark-commitlog \S+ serves {tmp_path}/log as node 1 of the cluster \S{{22}}"
    assert [line for line in logged if re.fullmatch(served, line)]
    assert f"listening on PLAINTEXT://{address}: open to everybody on this machine, without a login" in logged
    assert logged[-1] == "SIGTERM: answered what was read, closed the logs; the gateway ends"
    with LogManager.open(str(tmp_path / "log")) as manager, manager.open_reader("t", 0) as reader:
        assert building.committed(reader) == [(0, b"value")]


def test_it_serves_the_page_of_its_log_to_this_machine(tmp_path: Path) -> None:
    arguments = ["gateway", "--log-dir", str(tmp_path / "log"), "--listen", "127.0.0.1:0", "--browse-port", "0"]
    command = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            address = server.stdout.readline().removeprefix("listening on ").strip()
            page = next(line for line in server.stderr if line.startswith("page at ")).removeprefix("page at ").strip()
            producer = Producer({"bootstrap.servers": address})
            producer.produce("t", b"a value that a client produced")
            assert producer.flush(60) == 0
            with urllib.request.urlopen(f"{page}topics/t/0/records", timeout=60) as answer:
                assert b"a value that a client produced" in answer.read()
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=30)
        finally:
            server.kill()
    assert server.returncode == 0


def test_the_log_level_is_chosen(tmp_path: Path) -> None:
    arguments = ["gateway", "--log-dir", str(tmp_path / "log"), "--listen", "127.0.0.1:0", "--log-level", "warning"]
    command = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("listening on ")
        server.send_signal(signal.SIGTERM)
        _, printed = server.communicate(timeout=30)
    assert (server.returncode, printed) == (0, "")


def test_a_user_to_log_in_as_is_named_by_the_flag_of_the_documents(tmp_path: Path) -> None:
    with socket.socket() as bound:  # and nobody listens
        bound.bind(("127.0.0.1", 0))
        address = f"SASL_PLAINTEXT://127.0.0.1:{bound.getsockname()[1]}"
        arguments = ["--check", "--log-dir", tmp_path, "--listen", address, "--user", "alice"]
        mechanism = ["--config", "sasl.enabled.mechanisms=PLAIN", "--config", "commitlog.users.file=none.json"]
        done = commitlog("gateway", *arguments, *mechanism, stdin=b"secret\n")
    assert done.code == 1
    assert "cannot connect to 127.0.0.1" in done.stderr


def test_a_dry_run_says_where_it_would_listen(tmp_path: Path) -> None:
    conf = tmp_path / "gateway.toml"
    conf.write_text('"listeners" = "PLAINTEXT://127.0.0.1:1234"\n"node.id" = 3\n')
    done = commitlog("gateway", "--log-dir", tmp_path / "log", "--conf", conf, "--dry-run")
    assert (done.code, done.stdout) == (0, f"would serve {tmp_path / 'log'} on 127.0.0.1:1234\n")
    assert not (tmp_path / "log").exists()


def test_a_tier_is_for_a_log_directory(tmp_path: Path) -> None:
    for given in (["--tier", tmp_path / "tier"], ["--config", f"commitlog.tier.url={tmp_path}"]):
        done = commitlog("gateway", "--log-dir", tmp_path / "log", *given, "--tier-key", "a", "--dry-run")
        assert done.code == 0
        done = commitlog("gateway", "--log-dir", "s3://bucket/log", *given, "--dry-run")
        assert done.code == 2
        assert "a log on an object store has no tier" in done.stderr


def test_a_user_is_refused_where_nobody_would_have_to_log_in(tmp_path: Path) -> None:
    done = commitlog("gateway", "--log-dir", tmp_path / "log", "--user", "alice", "--dry-run")
    assert (done.code, done.stdout) == (2, "")
    assert "--user goes with --check" in done.stderr.replace("\n", " ")


def test_a_wrong_setting_is_one_line(tmp_path: Path) -> None:
    done = commitlog("gateway", "--log-dir", tmp_path, "--config", "node.id=x", "--dry-run")
    assert (done.code, done.stderr) == (2, "commitlog: node.id = 'x': must be a whole number of 32 bits, at least 0\n")


def test_a_setting_of_the_log_directory_is_answered_with_the_command_that_sets_it(tmp_path: Path) -> None:
    done = commitlog("gateway", "--log-dir", tmp_path, "--config", "log.retention.ms=3000", "--dry-run")
    assert done.code == 2
    told = "commitlog configs --entity-type brokers --entity-default --alter --add-config log.retention.ms=3000"
    assert told in done.stderr


def test_a_missing_file_of_settings_is_one_line(tmp_path: Path) -> None:
    done = commitlog("gateway", "--log-dir", tmp_path, "--conf", tmp_path / "none.toml", "--dry-run")
    assert done.code == 2
    assert "none.toml: no such file" in done.stderr


def test_clients_of_0_7_are_not_served_from_a_log_of_today(tmp_path: Path) -> None:
    commitlog("topics", "--log-dir", tmp_path / "log", "--create", "--topic", "orders")
    of_0_7 = ("--protocol", "0.7", "--dry-run")
    done = commitlog("gateway", "--log-dir", tmp_path / "log", *of_0_7)
    assert (done.code, done.stdout) == (1, "")
    assert "it is a log of Kafka 0.8 or later" in done.stderr
    done = commitlog("gateway", "--log-dir", tmp_path / "new", *of_0_7)
    assert done.stdout.startswith(f"would serve {tmp_path / 'new'} on ")


def test_it_serves_clients_of_0_7_until_it_is_told_to_end(tmp_path: Path) -> None:
    program = "from pyspark_commitlog.cli import main; main()"
    arguments = ["gateway", "--log-dir", str(tmp_path / "log"), "--protocol", "0.7", "--listen", "127.0.0.1:0"]
    settings = ["--config", "log.flush.interval=1"]
    command = [sys.executable, "-c", program, *arguments, *settings]
    entry = bytes.fromhex("0000000b01003610a68668656c6c6f")  # hello
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            host, _, port = server.stdout.readline().removeprefix("listening on ").strip().rpartition(":")
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(bytes.fromhex("0000001f0000000474657374ffffffff0000000f") + entry)
                client.sendall(bytes.fromhex("000000180001000474657374000000000000000000000000" + "0004b000"))
                assert client.recv(21, socket.MSG_WAITALL) == bytes.fromhex("000000110000") + entry
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
        finally:
            server.kill()
    assert (tmp_path / "log" / "test-0" / f"{0:020}.kafka").read_bytes() == entry
    assert (tmp_path / "log" / ".kafka_cleanshutdown").exists()


def test_a_dry_run_of_0_7_says_where_it_would_listen_and_wrong_usage_is_named(tmp_path: Path) -> None:
    arguments = ("gateway", "--log-dir", tmp_path / "log", "--protocol", "0.7")
    done = commitlog(*arguments, "--dry-run")
    assert (done.code, done.stdout) == (0, f"would serve {tmp_path / 'log'} on 127.0.0.1:6667\n")
    assert not (tmp_path / "log").exists()
    done = commitlog(*arguments, "--dry-run", "--config", "log.file.sizes=1")
    assert (done.code, done.stderr) == (
        2,
        "commitlog: unknown setting of the gateway of 0.7: log.file.sizes (did you mean 'log.file.size'?)\n",
    )
    assert commitlog(*arguments, "--check").code == 2


@pytest.mark.parametrize("protocol", ["0.7", "kafka"])
def test_an_address_that_is_taken_is_one_line_that_names_it(tmp_path: Path, protocol: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-c", "from pyspark_commitlog.cli import main; main()", "gateway"]
        arguments = ["--log-dir", str(tmp_path), "--protocol", protocol, "--listen", address]
        done = subprocess.run([*command, *arguments], check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"commitlog: {address}: cannot listen there: Address already in use\n"
