"""Random Produce requests and transactions to a gateway that serves them together, and to one that serves one by one.

Every answer must be the same and, at the end of a gateway's life, every log, index, snapshot and checkpoint; of topics
of transactions, which have the times of markers, logs, indexes and producers without these. A life is
some cases long, with one to three threads for connections; in most cases, the requests of a client are tried together
however often that was in vain. Every fourth life is on object stores, without transactions: then batches, offsets and
producers of all partitions must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark_commitlog.gateway.network import together
from tests.support import transaction_pairs
from tests.support.produce_pairs import Pair, different_files, paired
from tests.support.stores.pairs import different_partitions, paired_on_stores
from tests.torture.suite import Run, Suite, quiet

CASES_A_LIFE = 50
REQUESTS = 60  # of each client
USUAL_CASES = 5  # of a life, in which tries in vain become rare
LIVES_A_STORE = 4  # of which one is on object stores


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
    life = first // CASES_A_LIFE
    threads = 1 + life % 3
    if life % LIVES_A_STORE == LIVES_A_STORE - 1:
        with paired_on_stores(home, threads=threads) as pair:
            number = _compare_all(run, pair, first, Pair.differences)
            with run.watching(run.case(number - 1)):
                different = different_partitions(pair)
                assert not different, f"partitions differ at the end of a life: {different}"
        return number
    with paired(home, threads=threads) as pair:
        pair.create(transaction_pairs.TOPICS)
        number = _compare_all(run, pair, first, _with_transactions)
    with run.watching(run.case(number - 1)):
        different = different_files(pair) + transaction_pairs.different_files(pair)
        assert not different, f"files differ at the end of a life: {different}"
    return number


def _compare_all(run: Run, pair: Pair, first: int, differences: Callable[[Pair, str, int], list[str]]) -> int:
    """Compares the answers in the cases of a life; returns the case after them."""
    number = first
    while number < first + CASES_A_LIFE and not run.enough:
        case = run.case(number)
        with run.watching(case), _tried_always(is_so=number >= first + USUAL_CASES):
            found = differences(pair, f"{run.seed}/{number}", REQUESTS)
            assert not found, found[0]
        run.passed()
        number += 1
    run.note("requests served together", pair.served_together)
    return number


def _with_transactions(pair: Pair, seed: str, requests: int) -> list[str]:
    return pair.differences(seed, requests) + transaction_pairs.differences(pair, seed, requests)


SUITE = Suite("seeds", 1_000, run)
