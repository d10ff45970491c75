"""A coverage-guided fuzzer before every decoder, kernels as plain Python (``NUMBA_DISABLE_JIT=1``): it sees all.

It needs atheris, of the extra ``torture``. libFuzzer owns its process until it ends, so each decoder is given a process
of its own for a part of the count; what makes a decoder raise anything but our errors is kept as a file, and told.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from pyspark_commitlog.gateway.handlers.batches import check_batch_set
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.protocol.bodies import read_request
from pyspark_commitlog.protocol.errors import RequestError
from pyspark_commitlog.protocol.fetch import parse_fetch
from pyspark_commitlog.protocol.headers import parse_header
from pyspark_commitlog.protocol.produce import parse_produce
from pyspark_commitlog.protocol.reading import MalformedRequestError
from pyspark_commitlog.storage import LogConfig, check_batch
from pyspark_commitlog.storage.directory.topics_file import decode_topics
from pyspark_commitlog.storage.errors import LogStoreError
from pyspark_commitlog.storage.format import v2
from pyspark_commitlog.storage.format.files import checkpoints
from pyspark_commitlog.storage.format.internal import group_records, internal_topics
from pyspark_commitlog.storage.format.internal.messages import Messages
from pyspark_commitlog.storage.format.legacy import v0, v1
from tests.gateway.test_damaged_requests import requests
from tests.support.logs.building import records
from tests.torture.damage import files
from tests.torture.damage.damaging import sign_batches, sign_messages, sign_snapshot
from tests.torture.suite import Run, Suite

INPUT_BYTES_MAX = 2000
TIMEOUT_S = 60  # for one input: plain Python is slow, an endless loop is slower
MEMORY_MB_MAX = 4096
RUNS_AT_ONCE = 20_000

WRITTEN = records([b"value", None, b""], keys=[b"key", b"", None])
FIELDS = {0: (), 1: (), 2: (v2.BatchFields(producer_id=1, producer_epoch=0, base_sequence=0),)}
Decoder = Callable[[bytes], object]


def signed(sign: Callable[[bytes], bytes], read: Callable[[np.ndarray], object]) -> Decoder:
    """A reader of batches that are given right checksums: else nothing behind them would be reached."""
    return lambda data: read(files.as_buffer(sign(data)))


def read_frame(data: bytes) -> None:
    """A frame as a gateway reads it, with the batches of a Produce request as they are checked before an append."""
    frame = bytearray(data)
    with contextlib.suppress(MalformedRequestError, RequestError):
        header = parse_header(frame)
        if header.key == ApiKey.PRODUCE:
            for each in parse_produce(frame, header.body_at, header.version).partitions:
                sent = memoryview(b"") if each.records is None else each.records
                check_batch_set(sent, header.version)
                check_batch(sent, LogConfig())
        elif header.key == ApiKey.FETCH:
            parse_fetch(frame, header.body_at, header.version)
        elif header.is_served:
            read_request(header.key, header.version, frame, header.body_at)


DECODERS: dict[str, Decoder] = {
    "batches": signed(sign_batches, files.read_columns),
    "batches, by key": signed(sign_batches, files.read_keys),
    "batches, appended": signed(sign_batches, files.READERS[2]),
    "messages": signed(sign_messages, files.read_columns),
    "messages, by key": signed(sign_messages, files.read_keys),
    "messages, appended": signed(sign_messages, files.READERS[2]),
    "request": read_frame,
    "snapshot": lambda data: checkpoints.decode_snapshot(sign_snapshot(data)),
    "topics.json": decode_topics,
    **files.DECODERS,
    "group key": partial(files.internal_value, internal_topics.decode_group_key),
    "offset commit": partial(files.internal_value, internal_topics.OffsetCommitValue.decode),
    "group metadata": partial(files.internal_value, internal_topics.GroupMetadataValue.decode),
    "group record key": partial(files.internal_value, group_records.decode_record_key),
    "group record": lambda data: [group_records.decode_record(kind, data) for kind in (5, 7, 8)],
    "metadata record": Messages("metadata").framed,
    "transaction key": partial(files.internal_value, internal_topics.decode_transaction_key),
    "transaction": partial(files.internal_value, internal_topics.TransactionLogValue.decode),
}


def run(run: Run) -> None:
    """All decoders in turn."""
    inputs = min(RUNS_AT_ONCE, max(run.count // len(DECODERS), 1))
    fuzz(run, list(DECODERS), inputs)


def fuzz(run: Run, names: Sequence[str], inputs: int) -> None:
    """Some decoders in turn, each with so many inputs a case."""
    if importlib.util.find_spec("atheris") is None:
        raise ModuleNotFoundError("the fuzzer is missing: pip install 'spark-commitlog[torture]'")
    for case in run.cases():
        name = names[case.number % len(names)]
        with run.watching(case, name):
            run.passed(fuzz_one(name, inputs, case.chance.randrange(1, 2**31), run.directory))


def fuzz_one(name: str, inputs: int, seed: int, directory: Path) -> int:
    """Inputs tried, in a process of its own; AssertionError with the fuzzer's words and the input where it failed."""
    corpus = directory / re.sub(r"\W+", "-", name)
    corpus.mkdir(exist_ok=True)
    for number, data in enumerate(requests() if name == "request" else batches()):
        (corpus / f"{number}").write_bytes(data)
    command = [sys.executable, "-m", "tests.torture.fuzz_target", name, str(corpus), f"-artifact_prefix={directory}/"]
    options = [f"-runs={inputs}", f"-seed={seed}", f"-max_len={INPUT_BYTES_MAX}", f"-timeout={TIMEOUT_S}"]
    done = subprocess.run(
        [*command, *options, f"-rss_limit_mb={MEMORY_MB_MAX}"],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = re.search(r"Done (\d+) (?:runs )?in|stat::number_of_executed_units: (\d+)", done.stderr)
    assert found, done.stderr[-4000:]
    return int(found[1] or found[2])


def batches() -> Iterator[bytes]:
    """What to begin with: without, no header would ever be right."""
    for module in (v0, v1, v2):
        yield module.encode(WRITTEN, *FIELDS[module.MAGIC]).tobytes()


def attempt(decode: Decoder, data: bytes) -> None:
    with contextlib.suppress(LogStoreError):
        decode(data)


SUITE = Suite("fuzzed inputs", 1_000_000, run)
