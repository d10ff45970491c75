"""Java is found or refused with reasons, the cache holds what is whole, and no process outlives the tests."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.support.kafka import kafka_jvm
from tests.support.kafka.kafka_jvm import JavaMissingError


def fake_java(directory: Path, modules: str) -> None:
    directory.mkdir()
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho '{modules}'\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        pytest.param(None, r"no java in PATH: .* needs a JDK of version 17", id="no java at all"),
        pytest.param("java.base@11.0.2\njdk.compiler@11.0.2", r"is version 11: .* JDK of version 17", id="java 11"),
        pytest.param("java.base@17.0.15", r"is a JRE, its module jdk.compiler is missing", id="a JRE without compiler"),
        pytest.param("", r"is version before 9", id="java 8, which knows no modules"),
    ],
)
def test_a_java_that_cannot_serve_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: str | None, message: str
) -> None:
    if modules is not None:
        fake_java(tmp_path / "bin", modules)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaMissingError, match=message):
        kafka_jvm.java.__wrapped__()


def test_java_home_goes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    fake_java(tmp_path / "home" / "bin", "java.base@21\njdk.compiler@21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert kafka_jvm.java.__wrapped__() == tmp_path / "home" / "bin" / "java"


def test_the_jars_of_this_release_are_resolved() -> None:
    names = {jar.name for jar in kafka_jvm.jars()}
    assert {"kafka_2.13-3.9.1.jar", "kafka-tools-3.9.1.jar", "kafka-clients-3.9.1.jar"} <= names
    assert any(name.startswith("slf4j-reload4j-") for name in names)


def write_and_count(target: Path) -> None:
    """Fills a cached directory slowly, and leaves a mark beside it for every time it was asked to."""
    (target / "part-1").write_bytes(b"one")
    time.sleep(0.2)
    (target / "part-2").write_bytes(b"two")
    (target.parent / f"filled-{os.getpid()}-{time.monotonic_ns()}").touch()


def die_half_way(target: Path) -> None:
    (target / "part-1").write_bytes(b"one")
    raise KeyboardInterrupt


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "spark-commitlog" / "kafka-3.9.1"


def times_filled(cache: Path) -> int:
    return len(list(cache.glob("filled-*")))


def test_two_processes_at_once_fill_the_cache_once(cache: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=kafka_jvm.cached, args=("things", "recipe", write_and_count)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert times_filled(cache) == 1


def test_what_an_interrupted_fill_leaves_is_not_taken_for_whole(cache: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kafka_jvm.cached("things", "recipe", die_half_way)
    assert len(list(cache.glob("things.partial-*"))) == 1
    filled = kafka_jvm.cached("things", "recipe", write_and_count)
    assert (filled / "part-2").read_bytes() == b"two"
    assert not list(cache.glob("things.partial-*"))


@pytest.mark.parametrize("lost", ["part-1", "files.json"])
def test_a_cached_directory_that_lost_a_file_is_filled_anew(cache: Path, lost: str) -> None:
    (kafka_jvm.cached("things", "recipe", write_and_count) / lost).unlink()
    filled = kafka_jvm.cached("things", "recipe", write_and_count)
    assert sorted(path.name for path in filled.iterdir()) == ["files.json", "part-1", "part-2"]
    assert times_filled(cache) == 2


def test_a_cached_file_cut_short_is_filled_anew(cache: Path) -> None:
    os.truncate(kafka_jvm.cached("things", "recipe", write_and_count) / "part-2", 1)
    assert (kafka_jvm.cached("things", "recipe", write_and_count) / "part-2").read_bytes() == b"two"


def test_a_program_of_ours_dies_with_a_test_run_that_is_killed() -> None:
    """A stand-in for pytest starts a sleeper the way brokers are started, tells its process id, and is killed."""
    starter = """
        import subprocess, time
        from tests.support.kafka.kafka_jvm import dying_with_us
        print(subprocess.Popen(dying_with_us(["/bin/sleep", "300"]), start_new_session=True).pid, flush=True)
        time.sleep(300)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(starter)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        sleeper = Path("/proc") / run.stdout.readline().strip()
        while b"sleep" not in (sleeper / "comm").read_bytes():
            time.sleep(0.01)
        run.kill()
    deadline = time.monotonic() + 20
    while sleeper.exists() and " Z " not in (sleeper / "stat").read_text():
        assert time.monotonic() < deadline, "the sleeper outlived its starter"
        time.sleep(0.01)
