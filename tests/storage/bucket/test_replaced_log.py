"""A log that is set back, deleted or made again while a process has it open: nobody writes to what is there then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.clients.appends import ClientBatch, append_batches
from pyspark_commitlog.storage.bucket.collecting import CollectLimits, collect
from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.commits.commit import VoidChange, commit_key
from pyspark_commitlog.storage.bucket.loading import IDENTITY
from pyspark_commitlog.storage.bucket.proposals import claim_app
from pyspark_commitlog.storage.bucket.topics import ensure_topic, find_topic
from pyspark_commitlog.storage.bucket.upkeep import raise_log_start
from pyspark_commitlog.storage.clock import SystemClock
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.directory.manager import LogManager
from pyspark_commitlog.storage.errors import LogReplacedError, ObjectStoreError
from pyspark_commitlog.storage.maintenance.bucket.consolidate import consolidate
from pyspark_commitlog.storage.maintenance.bucket.scratch import Place
from pyspark_commitlog.storage.transfer.to_bucket import copy_to_bucket
from pyspark_commitlog.storage.writing.checks.checked_batch import check_batch
from tests.support.logs.building import batch, config
from tests.support.stores.commits import commit_log
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.transactional import Client

SMALL = LogConfig(segment_bytes=100, segment_ms=1)


def filled(store: MemoryStore, seed: int = 0, commits: int = 3) -> CommitLog:
    log = commit_log(store, seed)
    make_topic(log, "t")
    for _ in range(commits):
        append(log, b"x" * 200)
    return log


def append(log: CommitLog, value: bytes = b"a") -> None:
    append_batches(log, [ClientBatch(log.state.topic_ids["t"], 0, check_batch(batch(value).data, config()))])


# What happens to a log


def lose_commits(store: MemoryStore) -> None:
    """The two newest commits vanish, as with a restore of an older copy."""
    for key in sorted(key for key in store.objects if key.startswith("commits/"))[-2:]:
        del store.objects[key]


def continue_elsewhere(store: MemoryStore) -> None:
    """The same, and then another process goes on beyond the number that this one has."""
    lose_commits(store)
    other = commit_log(store, seed=5)
    for _ in range(4):
        append(other, b"other")


def delete(store: MemoryStore) -> None:
    store.objects.clear()


def make_again(store: MemoryStore) -> None:
    store.objects.clear()
    filled(store, seed=6, commits=1)


def make_longer_again(store: MemoryStore) -> None:
    store.objects.clear()
    filled(store, seed=6, commits=12)


CHANGES = [lose_commits, continue_elsewhere, delete, make_again, make_longer_again]

# Who writes: each function prepares, and returns what writes

Writer = Callable[[CommitLog, Path], Callable[[], object]]


def client(log: CommitLog, _: Path) -> Callable[[], object]:
    return lambda: append(log)


def transaction(log: CommitLog, _: Path) -> Callable[[], object]:
    client = Client(log)
    return lambda: client.append(b"a")


def offsets_of_a_transaction(log: CommitLog, _: Path) -> Callable[[], object]:
    client = Client(log)
    return lambda: client.stage(5)


def end_of_a_transaction(log: CommitLog, _: Path) -> Callable[[], object]:
    client = Client(log)
    client.append(b"a")
    return lambda: client.end(commit=True)


def new_transactional_id(log: CommitLog, _: Path) -> Callable[[], object]:
    return lambda: Client(log)


def sink(log: CommitLog, _: Path) -> Callable[[], object]:
    return lambda: claim_app(log, "app", None, None)


def topic(log: CommitLog, _: Path) -> Callable[[], object]:
    return lambda: log.commit(lambda state: ensure_topic(state, "new"))


def log_start(log: CommitLog, _: Path) -> Callable[[], object]:
    return lambda: log.commit(lambda state: raise_log_start(state, state.topic_ids["t"], 0, 1))


def consolidation(log: CommitLog, _: Path) -> Callable[[], object]:
    place = Place(log, find_topic(log.state, "t"), 0)
    kept = dict(log.store.objects)  # type: ignore[attr-defined]

    def run() -> object:
        log.store.objects |= {key: data for key, data in kept.items() if key.startswith("staged/")}  # type: ignore[attr-defined]
        return consolidate(place, SMALL, SystemClock(), SystemClock().now_ms())

    return run


def collector(log: CommitLog, _: Path) -> Callable[[], object]:
    log.patient_store.put_unique(f"staged/{7:032x}/0-0-0.data", b"of a writer that died")

    def run() -> object:
        log.patient_store.put_unique(f"staged/{8:032x}/0-0-0.data", b"of a writer that died")
        return collect(log, CollectLimits(-1, -1))

    return run


def copy(log: CommitLog, directory: Path) -> Callable[[], object]:
    source = LogManager.open(str(directory), create=True)
    source.create_topic("copied", partitions=1)
    return lambda: list(copy_to_bucket(source, log))


WRITERS: list[Writer] = [
    client,
    transaction,
    offsets_of_a_transaction,
    end_of_a_transaction,
    new_transactional_id,
    sink,
    topic,
    log_start,
    consolidation,
    collector,
    copy,
]


def kept_objects(store: MemoryStore) -> dict[str, bytes]:
    return {key: data for key, data in store.objects.items() if key.startswith(("commits/", "checkpoints/"))}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_commits_to_a_log_that_is_not_the_one_it_opened(
    writer: Writer, change: Callable[[MemoryStore], None], tmp_path: Path
) -> None:
    store = MemoryStore()
    log = filled(store)
    write_something = writer(log, tmp_path)
    change(store)
    before = kept_objects(store)
    with pytest.raises(LogReplacedError, match="deleted, made again, or set back to an older copy"):
        write_something()
    assert kept_objects(store) == before


def test_the_error_says_what_is_wrong_where_and_what_to_do() -> None:
    store = MemoryStore()
    log = filled(store)
    lose_commits(store)
    with pytest.raises(LogReplacedError) as caught:
        log.commit(lambda state: ensure_topic(state, "new"))
    told = str(caught.value)
    assert told.startswith(f"{store.url}/{commit_key(4)}: is missing")
    assert told.endswith("Restore it, or start this process again to use the log that is there now")


def test_a_log_that_is_restored_takes_commits_again() -> None:
    store = MemoryStore()
    log = filled(store)
    kept = dict(store.objects)
    lose_commits(store)
    with pytest.raises(LogReplacedError):
        log.commit(lambda state: ensure_topic(state, "new"))
    store.objects = kept
    assert log.commit(lambda state: ensure_topic(state, "new")) is not None
    assert "new" in commit_log(store).state.topic_ids


def test_a_log_without_a_commit_that_was_deleted_takes_none() -> None:
    store = MemoryStore()
    log = commit_log(store)
    del store.objects[IDENTITY]
    with pytest.raises(LogReplacedError, match=IDENTITY):
        log.commit(lambda state: ensure_topic(state, "new"))
    assert not store.objects


def test_a_commit_that_is_put_again_is_not_put_into_another_log() -> None:
    class Failing(MemoryStore):
        """Loses the first put, and then the log is set back."""

        def put_new(self, key: str, data: bytes) -> None:
            if key == commit_key(5):
                lose_commits(self)
                raise ObjectStoreError("lost")
            super().put_new(key, data)

    store = Failing()
    log = filled(store)
    with pytest.raises(LogReplacedError):
        log.commit(lambda state: ensure_topic(state, "new"))
    assert commit_key(5) not in store.objects


@pytest.mark.parametrize("change", [continue_elsewhere, make_longer_again])
def test_a_commit_of_another_log_is_not_called_damage(change: Callable[[MemoryStore], None]) -> None:
    store = MemoryStore()
    log = filled(store)
    number = log.state.number
    change(store)
    with pytest.raises(LogReplacedError, match="is of another log"):
        log.catch_up()
    assert log.state.number == number


def test_a_collector_deletes_nothing_that_its_own_log_gave_up_and_another_needs() -> None:
    """Set back to a time when a write was in the log that was given up since."""
    store = MemoryStore()
    log = commit_log(store)
    make_topic(log, "t")
    append(log)
    older = dict(store.objects)
    log.commit(lambda state: raise_log_start(state, state.topic_ids["t"], 0, 1))
    needed = [key for key in store.objects if key.startswith("staged/")]
    (given_up,) = {key.split("/")[1] for key in needed}
    log.commit(lambda _: VoidChange([given_up]))
    store.objects = older
    with pytest.raises(LogReplacedError):
        collect(log, CollectLimits(-1, -1))
    assert set(needed) <= store.objects.keys()
