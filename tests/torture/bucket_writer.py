"""Commits writes of one record to a log on an object store: ``URL NUMBER COMMITS``."""

from __future__ import annotations

import sys

from pyspark_commitlog.storage.bucket.proposals import StagedWrite, claim_app, commit_write
from pyspark_commitlog.storage.bucket.root import open_root
from pyspark_commitlog.storage.bucket.staging import StagedTopic, Stager
from pyspark_commitlog.storage.bucket.topics import find_topic
from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format import v2
from tests.support.logs.building import records

TOPIC = "t"


def main(url: str, number: int, commits: int) -> None:
    log = open_root(url)
    topic = find_topic(log.state, TOPIC)
    known = {TOPIC: StagedTopic(topic.topic_id, topic.partitions, LogConfig())}
    claim = claim_app(log, f"app {number}", "query", None)
    for batch in range(commits):
        write = f"{number:016x}{batch:016x}"
        with Stager(log.store, write, 0, 0, known) as stager:
            table = records([f"{number} {batch}".encode()])
            stager.append(
                TOPIC, batch % topic.partitions, v2.encode_batches(table, v2.BatchFields(), batch_bytes_max=1 << 20)
            )
            staged = stager.finish()
        whole = StagedWrite(write, staged.objects, staged.slices, claim, batch)
        log.commit(lambda state, whole=whole: commit_write(state, whole))  # type: ignore[misc]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
