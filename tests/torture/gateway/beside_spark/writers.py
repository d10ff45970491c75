"""Java's transactional producer, and the process that compacts."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.support.kafka.clients import Action, ProducerRecord, Step, java_produce
from tests.support.kafka.kafka_jvm import JavaError
from tests.torture.gateway.beside_spark.histories import records_of
from tests.torture.gateway.beside_spark.spark_driver import TOPIC
from tests.torture.gateway.clients import LIMIT_S, PARTITIONS, Told

TRANSACTIONS = 6  # of a producer's life
RECORDS = 3  # of a transaction, and some counters
JAVA = b"java"
TRANSACTIONAL_ID = "java"
SETTINGS = {
    "transactional.id": TRANSACTIONAL_ID,
    "linger.ms": "0",
    "delivery.timeout.ms": "100000",
    "request.timeout.ms": "20000",
    "max.block.ms": "100000",
    "reconnect.backoff.max.ms": "200",
}
COMPACT_S = (0.1, 6.0)  # until a compaction is killed, if it still runs


def transact(address: str, told: Told, chance: Random, ending: threading.Event) -> None:
    """One Java producer after the other under one id: it commits, aborts, and sometimes vanishes amid a transaction.

    Where one fails, nobody knows how its transactions have ended.
    """
    number = 0
    while not ending.is_set():
        commits: dict[int, bool] = {}
        steps: list[Action] = []
        for transaction in range(number, number + TRANSACTIONS):
            ends = chance.choices((Step.COMMIT, Step.ABORT), (7, 3))[0]
            if transaction == number + TRANSACTIONS - 1 and chance.random() < 0.3:
                ends = Step.VANISH
            commits[transaction] = ends is Step.COMMIT
            steps += [Step.BEGIN, *_records(transaction), ends]
        number += TRANSACTIONS
        try:
            java_produce(address, TOPIC, steps, SETTINGS, timeout_s=LIMIT_S)
        except JavaError as error:
            why = re.search(r"\w+(?:Exception|Error)\b", error.stderr)
            told.notes[f"Java producers that failed: {why[0] if why else error}"] += 1
        else:
            for transaction, is_committed in commits.items():
                (told.committed if is_committed else told.aborted).add(transaction)


def _records(transaction: int) -> Iterator[Action]:
    for number in range(transaction * RECORDS, (transaction + 1) * RECORDS):
        for each in records_of(JAVA, number, PARTITIONS):
            yield ProducerRecord(each.value, each.key, each.partition)


def compact(directory: Path, told: Told, chance: Random, ending: threading.Event) -> None:
    """One compaction after the other, some of which are killed."""
    program = Path(sys.executable).with_name("commitlog")
    while not ending.wait(chance.uniform(2, 15)):
        with subprocess.Popen(
            [program, "compact", "--log-dir", directory, "--topic", TOPIC, "--wait"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            if chance.random() < 0.5:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(*COMPACT_S))
                if process.poll() is None:
                    process.kill()
                    told.notes["compactions killed"] += 1
                    continue
            assert process.stdout is not None
            printed = process.stdout.read()
            assert process.wait() == 0, printed
            told.notes["compactions"] += 1
