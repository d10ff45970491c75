"""A worker's timers."""

from __future__ import annotations

from threading import Event

from pyspark_commitlog.gateway.threads.worker import PURGE_FROM, Worker
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


def test_a_patient_task_lets_all_others_go_first_and_has_its_turn_while_they_keep_coming() -> None:
    ran: list[str] = []
    worker, done = Worker("patient"), Event()

    def others(count: int) -> None:
        ran.append("other")
        if count:
            worker.run(lambda: others(count - 1))

    def patient(name: str) -> None:
        ran.append(f"{name}, {worker.is_patient}")

    worker.run_patient(lambda: patient("first"))
    worker.run_patient(lambda: patient("second"))
    worker.run(lambda: others(3))
    worker.run(lambda: ran.append(f"not patient, {worker.is_patient}"))
    worker.run_patient(done.set)
    worker.start()
    assert done.wait(30)
    worker.stop()
    assert ran == ["other", "not patient, False", "first, True", "other", "second, True", "other", "other"]


def test_patient_tasks_are_done_before_a_worker_ends() -> None:
    ran: list[int] = []
    worker = Worker("ending")
    for number in range(3):
        worker.run_patient(lambda number=number: ran.append(number))
    worker.start()
    worker.stop()
    assert ran == [0, 1, 2]
