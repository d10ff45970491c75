"""The commands of maintenance with the URL of a log on an object store."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.commit_log import CommitLog
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.errors import ProducerFencedError
from tests.cli.in_process import commitlog
from tests.support.stores.commits import hex_id
from tests.support.stores.filled import write_pairs
from tests.support.stores.filling import make_topic
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.served import ServedStores
from tests.support.stores.transactional import PRODUCER, TIMEOUT_MS, Client

URL = "s3://memory/logs"
OLD_MS = 1000


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """A log with an old and a new record in ``events``, and several of one key in ``users``."""
    served = ServedStores(monkeypatch)
    log = served.create(URL)
    now_ms = int(time.time() * 1000)
    make_topic(log, "events", configs={"retention.ms": "3600000", "segment.bytes": "60"})
    make_topic(log, "users", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
    for value, time_ms in ((b"old", OLD_MS), (b"new", now_ms), (b"last", now_ms)):
        write_pairs(log, (b"k", value), time_ms=time_ms, topic="events")
        write_pairs(log, (b"k", value), time_ms=time_ms, topic="users")
    return served.stores[URL]


def run(*arguments: str) -> list[str]:
    done = commitlog(*arguments, "--log-dir", URL)
    assert (done.code, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def read(topic: str) -> list[str]:
    return run("cat", "-t", topic, "-e", "-q")


def test_retain_raises_the_log_start_and_deletes_objects(store: MemoryStore) -> None:
    store.put_new(f"staged/{hex_id(99)}/0-0-0.data", b"garbage")
    store.now_ms += 2 * 86_400_000
    lines = "\n".join(run("retain", "--config", "delete.grace.ms=0"))
    assert "events-0" in lines
    assert "the log start offset rises from 0 to 1" in lines
    assert "s3://memory/logs: deleted: 2 objects" in lines
    assert read("events") == ["new", "last"]
    assert f"staged/{hex_id(99)}/0-0-0.data" not in store.objects


def test_compact_keeps_the_newest_and_consolidates(store: MemoryStore) -> None:
    lines = "\n".join(run("compact"))
    assert "users-0" in lines
    assert "1 of 3 records kept" in lines
    assert "events-0" in lines
    assert "2 slices" in lines
    assert (read("users"), read("events")) == (["last"], ["old", "new", "last"])
    assert sum(key.endswith(".log") for key in store.objects) == 3
    assert "sound" in "\n".join(run("verify"))
    assert "nothing to rebuild" in "\n".join(run("rebuild-index"))


def test_delete_records_takes_kafkas_file(store: MemoryStore, tmp_path: Path) -> None:
    asked = tmp_path / "offsets.json"
    asked.write_text(json.dumps({"partitions": [{"topic": "events", "partition": 0, "offset": 2}], "version": 1}))
    assert run("delete-records", "--offset-json-file", str(asked), "--dry-run")[-1] == (
        "partition: events-0\tlow_watermark: 2"
    )
    assert read("events") == ["old", "new", "last"]
    run("delete-records", "--offset-json-file", str(asked))
    assert read("events") == ["last"]


def test_a_dry_run_changes_nothing(store: MemoryStore) -> None:
    before = {key: value for key, value in store.objects.items() if not key.startswith("collector/")}
    for command in ("retain", "compact", "rebuild-index"):
        run(command, "--dry-run")
    assert {key: value for key, value in store.objects.items() if not key.startswith("collector/")} == before


def test_damage_ends_with_code_3_and_names_the_object(store: MemoryStore) -> None:
    key = next(key for key in sorted(store.objects) if key.startswith("staged/"))
    broken = bytearray(store.objects[key])
    broken[65] ^= 1
    store.objects[key] = bytes(broken)
    done = commitlog("compact", "--log-dir", URL)
    assert done.code == 3
    assert f"{URL}/{key}" in done.stdout


def test_maintain_takes_the_url_from_its_settings(store: MemoryStore, tmp_path: Path) -> None:
    conf = tmp_path / "maintenance.toml"
    conf.write_text(f'log_dir = "{URL}"\n[retain]\nevery = "1 hour"\nconfig = {{"delete.grace.ms" = "0"}}\n')
    assert commitlog("maintain", "--conf", str(conf), "--dry-run").stdout == f"would run retain every 1 hour on {URL}\n"


def test_runs_see_what_others_wrote_since(store: MemoryStore) -> None:
    run("retain")
    log = CommitLog(store, json.loads(store.objects["commitlog.json"])["logId"])
    write_pairs(log, (b"k", b"newest"), topic="users")
    run("compact")
    assert read("users") == ["newest"]


def test_a_log_with_open_and_aborted_transactions_is_sound_and_is_freed_of_late_ones(store: MemoryStore) -> None:
    log = open_root(URL)
    make_topic(log, "t", 2, {"retention.ms": "-1"})
    client, other = Client(log), Client(log, "y", PRODUCER + 1)
    client.append(b"lost")
    client.end(commit=False)
    client.append(b"late")
    other.append(b"kept")
    other.end(commit=True)
    assert "sound" in "\n".join(run("verify"))
    assert read("t") == []
    (described,) = (each for each in run("describe", "-t", "t") if "t-0" in each)
    assert "stable up to 1" in described
    assert "x" in "\n".join(run("transactions"))
    store.now_ms += TIMEOUT_MS
    run("retain")
    assert read("t") == ["kept"]
    assert run("transactions") == ["no open transactions"]
    assert "sound" in "\n".join(run("verify"))


def test_an_open_transaction_is_aborted_by_hand(store: MemoryStore) -> None:
    log = open_root(URL)
    make_topic(log, "t", 2)
    client = Client(log)
    client.append(b"lost")
    hand = ("transactions", "--abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
    run(*hand, "--dry-run")
    assert log.catch_up().open
    run(*hand)
    assert not log.catch_up().open
    with pytest.raises(ProducerFencedError):
        client.end(commit=True)
