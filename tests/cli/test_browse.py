"""``commitlog browse`` as a program: it serves, refuses what is not safe, and ends on SIGTERM."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import trustme

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog

PROGRAM = "from pyspark_commitlog.cli import main; main()"
TOKEN = "a token of forty characters, as it were.."


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with LogManager.open(str(path), create=True) as manager:
        manager.create_topic("orders", partitions=1)
    return path


def test_it_serves_until_it_is_told_to_end(log_dir: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "browse", "--log-dir", str(log_dir), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert b"orders" in answer.read()
            server.send_signal(signal.SIGTERM)
            _, logged = server.communicate(timeout=30)
        finally:
            server.kill()
    assert (server.returncode, logged) == (0, "")


def test_other_machines_are_served_over_tls_to_those_who_have_the_token(log_dir: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    keystore, token_file = tmp_path / "server.pem", tmp_path / "token"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(keystore)
    token_file.write_text(f"{TOKEN}\n")
    listen = ["--listen", "0.0.0.0:0", "--token-file", str(token_file), "--ssl-keystore", str(keystore)]
    command = [sys.executable, "-c", PROGRAM, "browse", "--log-dir", str(log_dir), *listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip().replace("0.0.0.0", "127.0.0.1")
            context = ssl.create_default_context()
            authority.configure_trust(context)
            assert address.startswith("https://")
            with urllib.request.urlopen(address, timeout=60, context=context) as answer:
                assert answer.url.startswith(f"{address}login")
            asked = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
                assert b"orders" in answer.read()
        finally:
            server.kill()


def test_dry_run_says_what_would_be_served(log_dir: Path) -> None:
    done = commitlog("browse", "--log-dir", log_dir, "--dry-run")
    assert (done.code, done.stdout) == (0, f"would serve {log_dir} on http://127.0.0.1:8080/\n")


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["--listen", "0.0.0.0:8080"], 2, "give --token-file and --ssl-keystore too"),
        (["--listen", "8080"], 2, "--listen = '8080': must be HOST:PORT"),
        (["--token-file", "missing"], 2, "--token-file missing: No such file or directory"),
        (["--token-file", "short"], 2, "it needs at least 16"),
        (["--ssl-keystore", "missing"], 1, "missing: No such file or directory"),
        (["--ssl-keystore", "short"], 1, "short: "),
        (["--log-dir", "elsewhere"], 1, "elsewhere: no such directory"),
    ],
)
def test_what_cannot_be_served_is_one_line_that_says_why(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(log_dir.parent)
    Path("short").write_text("secret")
    done = commitlog("browse", "--log-dir", log_dir, *given)
    assert (done.code, done.stdout, len(done.stderr.splitlines())) == (code, "", 1)
    assert message in done.stderr


def test_an_address_that_is_taken_is_named(log_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = [sys.executable, "-c", PROGRAM, "browse", "--log-dir", str(log_dir), "--listen", f"127.0.0.1:{port}"]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    expected = f"commitlog: cannot listen on 127.0.0.1:{port}: Address already in use; choose another --listen\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", expected)
