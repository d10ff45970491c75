"""Damaged bytes before everything that reads them: an error of ours, or what was written, in bounded time and memory.

An input is a file that a broker or this engine wrote, damaged in a drawn way (:mod:`tests.torture.damaging`), with the
checksums left as they were or made right again, so that what they protect is reached too. Most inputs are read from
memory, some as part of a whole log directory, by every part that opens one. What must hold is said where it is asked.

A faulty kernel ends the process, or never comes back: then the traceback of all threads is printed, and the last line
told before says about which case it was.
"""

from __future__ import annotations

import faulthandler
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.torture import damaged_directories, damaged_files
from tests.torture.suite import Run, Suite

CPU_S_MAX = 5.0  # for one input: the slowest takes a hundredth of it
STUCK_AFTER_S = 900  # machines may be stopped for a while
MEMORY_BYTES_MAX = (
    1 << 30
)  # that an input may ask for, beside what the process has: lengths of 2 GB are believed by none
DIRECTORIES_EVERY = 300  # inputs: of a whole directory, which takes a hundred times as long


def run(run: Run) -> None:
    files, directories = damaged_files.subjects(), damaged_directories.subjects()
    with limited_memory():
        for case in run.cases():
            if case.number % 1000 == 0:
                faulthandler.dump_traceback_later(STUCK_AFTER_S, exit=True)
            chosen = directories if case.number % DIRECTORIES_EVERY == 0 else files
            subject = case.chance.choice(chosen)
            started_s = time.process_time()
            with run.watching(case, subject.name):
                told = subject.attempt(case.chance)
                took_s = time.process_time() - started_s
                assert took_s < CPU_S_MAX, f"{took_s:.1f} s"
                run.note(told)
            run.passed()
    faulthandler.cancel_dump_traceback_later()


@contextmanager
def limited_memory() -> Iterator[None]:
    """No reservation goes far beyond what the process has now: numpy and the libraries raise MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES_MAX, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


SUITE = Suite("damaged inputs", 1_000_000, run)
