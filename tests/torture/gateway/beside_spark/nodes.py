"""As ``gateway-beside-spark``, with three gateways over the directory, which are killed and stopped (SIGSTOP).

One that was stopped comes back late: it may hold the lock of a partition that Spark writes to, and believe that it
leads.
"""

from __future__ import annotations

from tests.torture.gateway import nodes
from tests.torture.gateway.beside_spark import suite
from tests.torture.suite import Run, Suite

PAUSE_S = (0.5, 10.0)  # between two events


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a directory's life"):
            directory = run.directory / f"{case.number}"
            suite.live(run, case.chance, directory, serving=nodes.nodes, disturb=nodes.disturb, pause_s=PAUSE_S)


SUITE = Suite("events", 100, run)
