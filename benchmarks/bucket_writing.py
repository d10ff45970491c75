"""Write a topic on an object store, compared with Delta on the same store through S3A, and with a log directory.

The servers run on this machine and share its cores: only ratios count. Ours with lz4 is compared with Delta's default
codec, and without compression with Delta without. Delta has two partitions of its snapshot, as small tables should.
Single writes are of the rows of :mod:`benchmarks.writing`, a micro-batch is that of :mod:`benchmarks.microbatch`.

Requests are counted by a proxy, in a session of its own. What they would cost is by Amazon's list: 5 dollars for a
million that write or list, 0.4 for a million that read; deletions are free. A day has a micro-batch every ten seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from statistics import mean
from typing import NamedTuple

from pyspark.sql import DataFrame

from benchmarks.bucket_servers import BUCKET, SERVERS, session_on
from benchmarks.comparison import Comparison, Ratio, Setting
from benchmarks.floors import PARTITIONS
from benchmarks.microbatch import ROWS, WARM_UP, Write, in_turn
from benchmarks.sessions import in_own_process
from benchmarks.timing import Timing, alternate_told
from benchmarks.writing import OPERATION, ROWS_A_FILE, Peers, Rows, timed_writes, write_files
from pyspark_commitlog import commitlog_sink
from tests.support.stores.proxies import Proxy
from tests.support.stores.versity import VersityGateway

LOG, TABLES = f"s3://{BUCKET}/log", f"s3a://{BUCKET}"
CODECS = {"lz4": "snappy", "none": "none"}  # ours, and Delta's
MICRO_BATCHES = 10  # of each kind per requested round
COUNTED = 40  # micro-batches of each kind whose requests are counted
TASKS = 2  # of a micro-batch
REQUESTS = 3 + TASKS  # that a micro-batch may take
DAY = 24 * 60 * 6  # micro-batches
MICRO_BATCH = f"micro-batch of {ROWS:,} rows, committed in {PARTITIONS} partitions"
OF_DELTA = "Delta through S3A"
OF_DIRECTORY = "the same in a log directory"
PRICE_OF_WRITE, PRICE_OF_READ = 5e-6, 0.4e-6  # dollars

Request = tuple[str, str]  # method and path


class Found(NamedTuple):
    writes: dict[str, Timing]
    micro_batches: dict[str, Timing]


def measure(setting: Setting) -> Iterator[Comparison]:
    """Yield each comparison as soon as it is measured; only those on versitygw have limits."""
    write_files(setting.directory / "input", setting.sized(ROWS_A_FILE))
    for name in SERVERS:
        found = in_own_process(_measured, name, setting)
        limits = (1.3, 2, 8) if name == "versitygw" else (None, None, None)
        yield from _rows_of(name, found, *limits)
    yield from _requests(in_own_process(_counted, setting))


def _rows_of(
    server: str, found: Found, asked: float | None, aim: float | None, asked_of_small: float | None
) -> Iterator[Comparison]:
    for ours, theirs in CODECS.items():
        operation, timing = f"{OPERATION}, {ours}, on {server}", found.writes[f"ours, {ours}"]
        yield Comparison(operation, f"{OF_DELTA}, {theirs}", timing, found.writes[f"delta, {ours}"], asked, aim)
        most = asked and 2
        posix = found.writes[f"posix, {ours}"]
        yield Comparison(operation, OF_DIRECTORY, timing, posix, most, ratio=Ratio.SLOWER)
    operation, small = f"{MICRO_BATCH}, on {server}", found.micro_batches
    yield Comparison(operation, OF_DELTA, small["ours"], small["delta"], asked_of_small)
    yield Comparison(operation, OF_DIRECTORY, small["ours"], small["posix"], ratio=Ratio.SLOWER)


def _measured(server: str, setting: Setting) -> Found:
    """Measure on one server, in a process that has no session yet."""
    home, log = setting.directory / server, str(setting.directory / f"log-{server}")
    with SERVERS[server](home) as store, session_on(store.port) as spark:
        to_write = Rows(spark=spark, directory=setting.directory, log=log, numbers=count())
        found = alternate_told(timed_writes(to_write, _peers(to_write)), setting.rounds)
        writers = {**_writers(), "posix": _sink(log, "small")}
        rounds, directory = setting.rounds * setting.sized(MICRO_BATCHES), setting.directory / f"small-{server}"
        small = in_turn(spark, directory, writers, rounds, setting.sized(WARM_UP))
    return Found(found, small)


def _peers(to_write: Rows) -> Peers:
    peers: Peers = {}
    for ours, theirs in CODECS.items():
        peers[f"ours, {ours}"] = partial(_write_ours, to_write, LOG, ours)
        peers[f"delta, {ours}"] = partial(_write_delta, to_write, theirs)
        peers[f"posix, {ours}"] = partial(_write_ours, to_write, to_write.log, ours)
    return peers


def _write_ours(to_write: Rows, log: str, codec: str) -> None:
    _sink(log, codec, codec)(to_write.rows, next(to_write.numbers))


def _write_delta(to_write: Rows, codec: str) -> None:
    table = f"{TABLES}/delta-{codec}"
    to_write.rows.write.format("delta").option("compression", codec).mode("append").save(table)


def _sink(log: str, topic: str, codec: str = "none") -> Write:
    producer = {"compression.type": codec}
    return commitlog_sink(topic=topic, log_dir=log, txnAppId=topic, partitions=PARTITIONS, producer=producer)


def _writers() -> dict[str, Write]:
    return {"ours": _sink(LOG, "small"), "delta": _append_to_delta}


def _append_to_delta(frame: DataFrame, batch_id: int) -> None:
    once = {"txnAppId": "small", "txnVersion": str(batch_id)}
    frame.write.format("delta").options(**once).mode("append").save(f"{TABLES}/small")


# Requests


def _requests(found: dict[str, list[list[Request]]]) -> Iterator[Comparison]:
    counts = {name: Timing.of([len(each) for each in batches]) for name, batches in found.items()}
    days = {name: Timing.of([DAY * mean(map(_price, batches))]) for name, batches in found.items()}
    operation, most = f"requests: {MICRO_BATCH}", Timing.of([REQUESTS])
    against = f"{REQUESTS}: three, and its {TASKS} tasks"
    yield Comparison(operation, against, counts["ours"], most, 1, ratio=Ratio.SLOWER, unit="requests")
    yield Comparison(operation, OF_DELTA, counts["ours"], counts["delta"], unit="requests")
    price = "list price of a day: a micro-batch every 10 s"
    yield Comparison(price, OF_DELTA, days["ours"], days["delta"], unit="dollars")


def _price(requests: list[Request]) -> float:
    """Dollars by Amazon's list."""
    billed = [each for each in requests if each[0] != "DELETE" and not each[1].endswith("?delete")]
    writes = sum(method in ("PUT", "POST") or "list-type=" in path for method, path in billed)
    return PRICE_OF_WRITE * writes + PRICE_OF_READ * (len(billed) - writes)


def _counted(setting: Setting) -> dict[str, list[list[Request]]]:
    """The requests of micro-batches, by writer; the first ones, which create topic and table, do not count."""
    directory = setting.directory / "counted"
    with VersityGateway(directory) as store, Proxy(store.port) as proxy, session_on(proxy.port) as spark:
        found: dict[str, list[list[Request]]] = {}
        writers = {name: _counting(proxy.requests, found.setdefault(name, []), w) for name, w in _writers().items()}
        counted, warm_up = setting.sized(COUNTED), setting.sized(WARM_UP)
        in_turn(spark, directory, writers, counted, warm_up)
    return {name: batches[warm_up : warm_up + counted] for name, batches in found.items()}


def _counting(requests: list[Request], found: list[list[Request]], write: Callable[[DataFrame, int], object]) -> Write:
    def counted(frame: DataFrame, batch_id: int) -> None:
        before = len(requests)
        write(frame, batch_id)
        found.append(requests[before:])

    return counted
