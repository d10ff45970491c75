"""Keeps errors apart from results: on stderr, under spark-submit too."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any


def is_submitted() -> bool:
    """Whether this program runs under spark-submit, which has made a JVM and its settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def errors_apart() -> Iterator[None]:
    """Makes ``sys.stderr`` write to the stderr of spark-submit in the block.

    What a Python program under spark-submit writes to its own stderr appears on the JVM's stdout, between the results,
    because Spark's PythonRunner merges the two streams. So this writes to the JVM's stderr, through py4j.
    """
    if not is_submitted():
        yield
        return
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415  only spark-submit needs it

    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    with redirect_stderr(_JvmErrors(gateway.jvm.System.err)):
        yield


class _JvmErrors(io.TextIOBase):
    """A text stream that writes to a java.io.PrintStream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self._stream.print(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()
