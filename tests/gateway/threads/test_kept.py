"""No error ends a thread of the gateway; each is logged once, counted, and shown while the thread does not run."""

from __future__ import annotations

import ast
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from pyspark_commitlog.gateway.threads import kept
from pyspark_commitlog.gateway.threads.kept import KeptThread, run_apart, thread_failures, unwell_threads
from pyspark_commitlog.gateway.threads.worker import Worker
from tests.support.waiting import soon
from tests.test_layering import ROOT, sources

TIMEOUT_S = 30
NO_DESCRIPTOR = OSError(24, "Too many open files")


@pytest.fixture(autouse=True)
def log_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_said", kept.Said(kept.logger))
    monkeypatch.setattr(kept, "PAUSE_S", 0.001)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"thread of {request.node.name}"


class Loop:
    """Does what is queued; an error ends a turn of it, and None ends it."""

    def __init__(self) -> None:
        self.queue: deque[BaseException | str | None] = deque()
        self.done: list[str] = []

    def __call__(self) -> None:
        while True:
            if not self.queue:
                Event().wait(0.001)
                continue
            each = self.queue.popleft()
            if each is None:
                return
            if isinstance(each, BaseException):
                raise each
            self.done.append(each)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def thread(name: str, loop: Loop) -> Iterator[KeptThread]:
    thread = KeptThread(name, loop)
    thread.start()
    yield thread
    loop.queue.append(None)
    thread.join()
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "error", [NO_DESCRIPTOR, ValueError("ours"), MemoryError(), SystemExit(1), KeyboardInterrupt()], ids=repr
)
def test_a_thread_goes_on_after_an_error(
    thread: KeptThread, loop: Loop, name: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    loop.queue.extend(["before", error, "after", error, "again"])
    soon(lambda: loop.done == ["before", "after", "again"])
    assert thread_failures()[name] == 2
    assert [each.levelname for each in caplog.records] == ["ERROR"]  # said once
    assert f"thread {name} failed and is started again: {error}" in caplog.text
    soon(lambda: thread.is_well)


def test_a_thread_is_shown_while_it_pauses(
    thread: KeptThread, loop: Loop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert name not in unwell_threads()
    monkeypatch.setattr(kept, "PAUSE_MAX_S", 600.0)
    loop.queue.extend([NO_DESCRIPTOR] * 9)  # it pauses for longer each time
    soon(lambda: name in unwell_threads())


def test_a_thread_that_fails_at_its_end_is_not_waited_for_without_end(name: str) -> None:
    def fail() -> None:
        raise NO_DESCRIPTOR

    thread = KeptThread(name, fail)
    thread.start()
    thread.join()
    assert not thread.is_alive()
    assert thread_failures()[name] >= kept.TRIES_AT_THE_END
    assert name in unwell_threads()


def test_a_thread_that_was_not_started_has_nothing_to_wait_for(name: str) -> None:
    KeptThread(name, lambda: None).join()


def test_an_error_of_a_task_ends_no_worker_and_loses_no_task(name: str) -> None:
    worker, is_done = Worker(name), Event()

    def end() -> None:
        raise SystemExit

    worker.run(end)
    worker.run(is_done.set)
    worker.start()
    assert is_done.wait(TIMEOUT_S)
    worker.stop()


def test_an_error_of_a_task_apart_is_logged_and_counted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise NO_DESCRIPTOR

    run_apart(name, fail)
    soon(lambda: thread_failures().get(name) == 1)
    soon(lambda: f"thread {name} failed and has ended" in caplog.text)


OTHERS = """
import logging, sys, threading
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from pyspark_commitlog.gateway.threads.kept import thread_failures, unwell_threads, watch_all_threads
threading.excepthook = lambda _: print("the hook before")
watch_all_threads()
def fail(): raise OSError(24, "Too many open files")
def end(): raise SystemExit
for each in (fail, end):
    thread = threading.Thread(target=each, name=f"library {each.__name__}")
    thread.start()
    thread.join()
print(dict(thread_failures()), unwell_threads())
"""


def test_threads_of_libraries_that_end_with_an_error_are_shown() -> None:
    command = [sys.executable, "-c", OTHERS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True, cwd=ROOT)
    assert "thread library fail failed and has ended" in done.stdout
    assert done.stdout.count("the hook before") == 2
    assert done.stdout.splitlines()[-1] == "{'library fail': 1} ['library fail']"


def test_each_thread_of_the_gateway_is_kept() -> None:
    found = [
        path
        for path in sources()
        if path.startswith("gateway/") and path != "gateway/threads/kept.py" and _makes_threads(path)
    ]
    assert found == [], "use KeptThread or run_apart"


def _makes_threads(path: str) -> bool:
    tree = ast.parse(Path(ROOT, path).read_text())
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(
        (isinstance(each, ast.Name) and each.id == "Thread")
        or (isinstance(each, ast.Attribute) and each.attr in ("Thread", "start_new_thread"))
        for each in called
    )


@pytest.fixture(autouse=True)
def hook() -> Iterator[None]:
    before = threading.excepthook
    yield
    assert threading.excepthook is before
