"""Random Produce requests and transactions to a gateway that serves them together, and to one that serves one by one.

Every answer must be the same and, at the end of a gateway's life, every log, index, snapshot and checkpoint; of topics
of transactions, which have the times of markers, logs, indexes and producers without these. A life is
some cases long, with one to three threads for connections; in most cases, the requests of a client are tried together
however often that was in vain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark_commitlog.gateway.network import together
from tests.support import transaction_pairs
from tests.support.produce_pairs import Pair, different_files, paired
from tests.torture.suite import Run, Suite, quiet

CASES_A_LIFE = 50
REQUESTS = 60  # of each client
USUAL_CASES = 5  # of a life, in which tries in vain become rare


@contextmanager
def _tried_always(*, is_so: bool) -> Iterator[None]:
    before = together.IN_VAIN_MAX
    together.IN_VAIN_MAX = 10**9 if is_so else before
    try:
        yield
    finally:
        together.IN_VAIN_MAX = before


def run(run: Run) -> None:
    number = run.first
    while not run.enough:
        with quiet(), TemporaryDirectory(dir=run.directory) as home:
            number = _live(run, Path(home), number)


def _live(run: Run, home: Path, first: int) -> int:
    """One life of a pair, from a case on; returns the next case."""
    number = first
    with paired(home, threads=1 + first // CASES_A_LIFE % 3) as pair:
        pair.create(transaction_pairs.TOPICS)
        while number < first + CASES_A_LIFE and not run.enough:
            case = run.case(number)
            with run.watching(case), _tried_always(is_so=number >= first + USUAL_CASES):
                _compare(pair, f"{run.seed}/{number}")
            run.passed()
            number += 1
        run.note("requests served together", pair.served_together)
    with run.watching(run.case(number - 1)):
        different = different_files(pair) + transaction_pairs.different_files(pair)
        assert not different, f"files differ at the end of a life: {different}"
    return number


def _compare(pair: Pair, seed: str) -> None:
    found = pair.differences(seed, REQUESTS) + transaction_pairs.differences(pair, seed, REQUESTS)
    assert not found, found[0]


SUITE = Suite("seeds", 1_000, run)
