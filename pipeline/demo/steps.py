"""The steps of the demo, and their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TextIO

from pyspark.sql import DataFrame, functions as F
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from ...storage import LogManager
from .flights import Comparison

# A JVM that lives for seconds spends most of its time optimizing code that runs once.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
NEXT = """\
Try next
  make demo                                        run it again: it resumes where it stopped, with nothing to write
  .venv/bin/commitlog dump-log --help              print every record batch of a segment file
  ls data/log/flights-0                            list the files, which have the names a Kafka broker gives them
  .venv/bin/python                                 read the topic in Python:
    from pyspark_commitlog import spark_session
    flights = spark_session("try").read.format("commitlog").option("subscribe", "flights").load("data/log")
    flights.selectExpr("offset", "cast(key as string)", "cast(value as string)").show(5, False)
  rm -r data                                       start over"""


def submit(job: Sequence[str | Path], conf: Path, errors: TextIO) -> int:
    """Runs a program with its arguments with spark-submit, and returns its exit code.

    Writes the program's stderr to ``errors``. Settings come from the folder ``conf``; workers run this Python. Passes
    SIGTERM on to the program, and waits for its end.
    """
    command = [Path(sys.executable).with_name("spark-submit"), "--driver-java-options", JAVA_OPTIONS, *job]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(conf)}
    with subprocess.Popen(command, env=environment, stderr=errors) as running:

        def pass_on(number: int, _frame: FrameType | None) -> None:
            running.send_signal(number)

        before = signal.signal(signal.SIGTERM, pass_on), signal.signal(signal.SIGINT, _ignore)
        try:
            return running.wait()
        finally:
            signal.signal(signal.SIGTERM, before[0])
            signal.signal(signal.SIGINT, before[1])


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Ignores SIGINT: Ctrl-C reaches every foreground process of the terminal, so the job gets it too."""


@contextmanager
def stderr_to(errors: TextIO) -> Iterator[None]:
    """Makes processes that are started in the block, such as the JVM, write their stderr to ``errors``."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(errors.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def show_partitions(console: Console, topic: str, frame: DataFrame, log_dir: str) -> None:
    """Prints a table with one line per partition: its records, offsets, segments and bytes."""
    found = frame.groupBy("partition").agg(F.count("*"), F.min("offset"), F.max("offset"))
    by_partition = {row[0]: row[1:] for row in found.collect()}
    table = Table(
        "partition", "records", "first offset", "last offset", "segments", "bytes", box=SIMPLE, title=f"Topic {topic}"
    )
    for column in table.columns:
        column.justify = "right"
    with LogManager.open(log_dir) as manager:
        for number in manager.topic(topic).partitions:
            segments = manager.open_reader(topic, number).describe_segments()
            records, first, last = by_partition.get(number, (0, "", ""))
            numbers = [number, records, first, last, len(segments), sum(each.size for each in segments)]
            table.add_row(*(f"{each:,}" if isinstance(each, int) else each for each in numbers))
    console.print(table)


def show_comparison(console: Console, found: Comparison) -> None:
    """Prints the differences between the topic and its input."""
    console.print(
        f"Compared with the files: {found.input_rows:,} rows in them, {found.topic_rows:,} records in the topic,\n"
        f"{found.missing:,} missing, {found.surplus:,} too many, "
        f"{found.out_of_order:,} out of the order of the months for their key, "
        f"{found.scattered_keys:,} keys in more than one partition."
    )
    console.print("The same content, in order." if found.same else "NOT the same content.", style="bold")
