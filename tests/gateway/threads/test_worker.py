"""A worker's timers."""

from __future__ import annotations

from pyspark_commitlog.gateway.threads import Worker
from tests.support.waiting import soon


def test_a_task_is_repeated_after_its_errors_too_until_the_worker_stops() -> None:
    runs: list[int] = []

    def task() -> None:
        runs.append(len(runs))
        raise ValueError("logged")

    worker = Worker("repeating")
    worker.repeat(0.001, task, first_s=0.0)
    worker.start()
    soon(lambda: len(runs) > 3)
    worker.stop()  # which waits for the thread
