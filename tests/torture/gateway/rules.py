"""Random sets of ACLs, and clients that ask: each decision is that of a model of Kafka's documentation."""

from __future__ import annotations

from tests.support.acls import expected, random_set
from tests.torture.suite import Case, Run, Suite


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case):
            _compare(case)
        run.passed()


def _compare(case: Case) -> None:
    of = random_set(case.chance)
    rules = of.rules()
    for asked in of.asked:
        found = rules.allow(asked.client, asked.operation, asked.resource, asked.name)
        assert found == expected(of, asked), f"{found}: {asked} by {of.acls}"


SUITE = Suite("sets of ACLs", 10_000, run)
