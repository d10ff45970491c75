"""Damaged bytes before everything that reads them: an error of ours, or what was written, in bounded time and memory.

Each input is a partition that a broker wrote, of which files are damaged (:mod:`tests.torture.damage.log_damage`),
before the engine's reader in both isolation levels. In between come single files of every kind before what decodes
them, with checksums left as they were or made right again, so that what they protect is reached too; and whole
directories before every part that opens one: verification, salvage, recovery, compaction. What must hold is said where
it is asked.

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

from tests.torture.damage import directories as damaged_directories, files as damaged_files, reads
from tests.torture.suite import Run, Suite, quiet

CPU_S_MAX = 5.0  # for one input: the slowest takes a hundredth of it
STUCK_AFTER_S = 900  # machines may be stopped for a while
MEMORY_BYTES_MAX = (
    1 << 30
)  # that an input may ask for, beside what the process has: lengths of 2 GB are believed by none
FILES_EVERY = 4  # inputs: a single file besides
DIRECTORIES_EVERY = 400  # inputs: a whole directory besides, which takes a hundred times as long


def run(run: Run) -> None:
    files, directories = damaged_files.subjects(), damaged_directories.subjects()
    reads.prepare()
    with limited_memory():
        for case in run.cases():
            if case.number % 1000 == 0:
                faulthandler.dump_traceback_later(STUCK_AFTER_S, exit=True)
            with run.watching(case), in_time():
                for word in reads.attempt(case.chance):
                    run.note(word)
            for every, subjects in ((FILES_EVERY, files), (DIRECTORIES_EVERY, directories)):
                if case.number % every == 0:
                    subject = case.chance.choice(subjects)
                    with run.watching(case, subject.name), in_time(), quiet():
                        run.note(f"files: {subject.attempt(case.chance)}")
            run.passed()
    faulthandler.cancel_dump_traceback_later()


@contextmanager
def in_time() -> Iterator[None]:
    started_s = time.process_time()
    yield
    took_s = time.process_time() - started_s
    assert took_s < CPU_S_MAX, f"{took_s:.1f} s"


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
