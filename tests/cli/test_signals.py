"""Commands that run until a signal ends them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from pyspark_commitlog.cli.signals import until_signal


@pytest.fixture
def restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("restored")
def test_a_signal_that_another_thread_takes_ends_the_wait() -> None:
    """Python calls the handler in the main thread, which such a signal does not wake."""
    ended = until_signal()
    other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
    other.start()
    ended.wait_for_signal()
    other.join()
    assert ended.name == "SIGTERM"
