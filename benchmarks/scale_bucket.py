"""How the costs of a log on an object store grow with its topics: 10, 100 and 1,000, each made by a commit.

versitygw serves the store on this machine. Requests are counted by a proxy, in a second log. Each topic has one
partition without records. What reads or maintains all topics runs in a process that has not opened the log before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.bucket_servers import BUCKET, reach
from benchmarks.comparison import Series, Setting, series_of
from benchmarks.sessions import in_own_process
from benchmarks.timing import Timing, time_call
from pyspark_commitlog.storage import (
    LogManager,
    MaintenanceRun,
    OutcomeStatus,
    in_this_process,
    retain_partitions,
    select_partitions,
)
from pyspark_commitlog.storage.bucket.files.filesystem import BucketFileSystem
from pyspark_commitlog.storage.bucket.root import open_root
from tests.support.stores.proxies import Proxy
from tests.support.stores.versity import VersityGateway

TOPICS = (10, 100, 1_000)
URL = f"s3://{BUCKET}/log"
PLOT = "a log on an object store of many topics"

Cost = Callable[[Callable[[], object]], float]
Figures = dict[float, dict[str, Timing]]


def measure(setting: Setting) -> Iterator[Series]:
    sizes = sorted({max(2, setting.sized(size)) for size in TOPICS})
    yield from series_of(PLOT, "topics", in_own_process(timed, setting, sizes))
    yield from series_of(f"requests: {PLOT}", "topics", in_own_process(counted, setting, sizes), unit="requests")


def timed(setting: Setting, sizes: list[int]) -> Figures:
    with VersityGateway(setting.directory / "timed") as store:
        reach(store.port)
        return _grown(sizes, time_call)


def counted(setting: Setting, sizes: list[int]) -> Figures:
    with VersityGateway(setting.directory / "counted") as store, Proxy(store.port) as proxy:
        reach(proxy.port)

        def requests(run: Callable[[], object]) -> float:
            before = len(proxy.requests)
            run()
            return len(proxy.requests) - before

        return _grown(sizes, requests)


def _grown(sizes: list[int], cost: Cost) -> Figures:
    """The costs at each number of topics, of which the log gets more and more."""
    with LogManager.open(URL, filesystem=BucketFileSystem(open_root(URL, create=True, check=lambda _: ()))) as manager:
        found: Figures = {}
        for before, size in zip([0, *sizes], sizes, strict=False):
            creating = cost(partial(_create, manager, range(before, size))) / (size - before)
            costs = {"create a topic": creating} | {line: cost(run) for line, run in OPERATIONS.items()}
            found[size] = {line: Timing.of([each]) for line, each in costs.items()}
    return found


def _create(manager: LogManager, numbers: range) -> None:
    for number in numbers:
        manager.create_topic(f"topic-{number}", partitions=1)


def _open() -> LogManager:
    return LogManager.open(URL, filesystem=BucketFileSystem(open_root(URL)))


def _list() -> None:
    with _open() as manager:
        manager.topics()


def _read_ends() -> None:
    with _open() as manager:
        for topic in manager.topics():
            with manager.open_reader(topic, 0) as reader:
                reader.log_end_offset  # noqa: B018


def _retain() -> None:
    run = MaintenanceRun(URL)
    with run.manager() as manager:
        selection = select_partitions(manager, (), run.overrides)
    if not all(outcome.status is OutcomeStatus.DONE for outcome in retain_partitions(run, selection, in_this_process)):
        raise ValueError("a partition was not maintained")


OPERATIONS: dict[str, Callable[[], None]] = {
    "open it and list its topics": _list,
    "ends of all partitions": _read_ends,
    "retain, nothing to delete": _retain,
}
