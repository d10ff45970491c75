"""A worker's timers."""

from __future__ import annotations

from pyspark_commitlog.gateway.threads import Worker
from pyspark_commitlog.gateway.threads.worker import PURGE_FROM
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


def test_timers_that_were_cancelled_are_removed_before_they_are_due() -> None:
    worker = Worker("cancelled")
    kept = worker.later(3600, lambda: None)
    for _ in range(10 * PURGE_FROM):
        worker.later(1800, lambda: None).cancel()
    assert len(worker._timers) <= 2 * PURGE_FROM
    assert kept in [each[2] for each in worker._timers]
