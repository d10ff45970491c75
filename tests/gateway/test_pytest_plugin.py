"""The fixture ``commitlog_gateway``, used as a test of its users' would."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import pyspark_commitlog
from pyspark_commitlog.gateway import pytest_plugin
from pyspark_commitlog.gateway.config import keys_of_gateway
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.storage import InvalidConfigError, LogManager

TIMEOUT_S = 30.0
ROOT = Path(__file__).parents[2]
# Once the package is installed, pytest finds them itself; a checkout may be older than the entry point.
commitlog_gateway = pytest_plugin.commitlog_gateway
commitlog_gateway_settings = pytest_plugin.commitlog_gateway_settings


@pytest.fixture
def asked_at_s() -> float:
    return time.perf_counter()


def test_a_test_produces_and_consumes(asked_at_s: float, commitlog_gateway: Gateway) -> None:
    started_s = time.perf_counter()
    servers = {"bootstrap.servers": commitlog_gateway.bootstrap_servers}
    producer = Producer({**servers, "linger.ms": 0})
    producer.produce("orders", b"one")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer({**servers, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    record = consumer.poll(TIMEOUT_S)
    done_s = time.perf_counter()
    consumer.close()
    assert record is not None
    assert record.value() == b"one"
    print(f"start {started_s - asked_at_s:.3f} s, produced and consumed after {done_s - asked_at_s:.3f} s")


def test_the_next_test_has_a_directory_of_its_own(commitlog_gateway: Gateway) -> None:
    with LogManager.open(commitlog_gateway.log_dir) as manager:
        assert manager.topics() == {}


class TestWithSettings:
    @pytest.fixture
    def commitlog_gateway_settings(self) -> Mapping[str, str | int | bool]:
        return {"num.partitions": 3}

    def test_a_class_of_tests_has_settings_of_its_own(self, commitlog_gateway: Gateway) -> None:
        assert commitlog_gateway.config.num_partitions == 3
        assert commitlog_gateway.config.group_initial_rebalance_delay_ms == 0


def test_pytest_finds_the_fixture_in_an_installed_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"commitlog": pytest_plugin.__name__}


def test_pytest_does_not_compile_our_modules_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    pytest_plugin.pytest_load_initial_conftests()
    spec = importlib.util.find_spec("pyspark_commitlog.gateway.server")
    assert spec is not None
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    assert sys.meta_path[0].find_spec("tests.gateway") is None


def test_one_gateway_serves_all_tests_if_the_scope_is_session(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ncommitlog_gateway_scope = session\n")
    (tmp_path / "test_shop.py").write_text(
        "def test_one(commitlog_gateway): test_one.server = commitlog_gateway\n"
        "def test_two(commitlog_gateway): assert test_one.server is commitlog_gateway\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:commitlog", "-p", pytest_plugin.__name__]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("scope", "setting", "said"),
    [
        ("sesion", "num.partitions", "commitlog_gateway_scope = sesion: must be one of function, class, module"),
        ("class", "num.partitons", "commitlog_gateway_settings: unknown gateway config num.partitons (did you mean"),
    ],
)
def test_a_mistake_in_the_settings_of_tests_is_one_line(scope: str, setting: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ncommitlog_gateway_scope = {scope}\n")
    (tmp_path / "test_shop.py").write_text(
        "import pytest\n@pytest.fixture(scope='class')\ndef commitlog_gateway_settings():\n"
        f"    return {{'{setting}': 3}}\ndef test_one(commitlog_gateway): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:commitlog", "-p", pytest_plugin.__name__]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert (done.returncode != 0, said in printed) == (True, True), printed
    assert "Traceback" not in printed
    assert "another exception" not in printed
    assert "pytest_plugin.py" not in printed


def test_a_program_starts_a_gateway_with_settings_by_their_names(tmp_path: Path) -> None:
    with pyspark_commitlog.Gateway(
        str(tmp_path / "log"), create=True, listeners="PLAINTEXT://127.0.0.1:0", num_partitions=3
    ) as gateway:
        assert gateway.config.num_partitions == 3
        assert gateway.address.port > 0


def test_an_unknown_setting_by_name_is_refused_with_the_most_similar_one() -> None:
    with pytest.raises(InvalidConfigError, match=r"did you mean 'num\.partitions'"):
        pyspark_commitlog.Gateway("log", num_partition=3)


def test_every_setting_can_be_given_by_name() -> None:
    assert not [key.name for key in keys_of_gateway().values() if "_" in key.name]
