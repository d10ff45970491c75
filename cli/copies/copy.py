"""``commitlog copy``: copies topics to another log, from or to a directory or an object store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

import typer

from ... import storage
from ..flags import AsJson
from ..maintenance.bars import bar
from ..output import fail, print_json

# Reads of each byte: to check it, to copy it, and in a directory to make the indexes.
PASSES_TO_STORE, PASSES_TO_DIRECTORY = 2, 3

From = Annotated[str, typer.Option("--from", help="The log to copy: a directory, or s3://bucket/folder.")]
To = Annotated[str, typer.Option("--to", help="The log to copy to; it is created if it is missing.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topics", "--topic", "-t", help="Topics, separated by commas. Repeatable.")
]


def copy(*, source: From, to: To, topics: Topics = None, as_json: AsJson = False) -> None:
    """Copy topics to another log: from a directory to an object store, back, or between two of a kind.

    Offsets, topics' settings and ids, and the offsets of groups for these topics are kept. Kafka's own bytes are
    copied, also those of transactions and of compacted topics. Takes no lock on the source: of a partition that is
    being written or maintained, it copies what is there when its turn comes. A partition that is damaged is not copied,
    and the exit code is 3. Run again, a copy goes on with the partitions that are not complete.
    """
    wanted = storage.parse_names("--topics", topics) if topics else None
    progress = Progress(as_json)
    with storage.LogManager.open(source) as found:
        for name in wanted or ():
            found.topic(name)  # raises if it is missing, before the target is made
        storage.check_outside(to, found)
        with storage.LogManager.open_or_make(to) as target:
            copied = storage.copy_topics(found, target, wanted, progress.note_damage, progress.note_complete)
            progress.show(copied, _bytes_of(found, wanted), PASSES_TO_STORE if target.bucket else PASSES_TO_DIRECTORY)
    progress.end()


def _bytes_of(source: storage.LogManager, wanted: Collection[str] | None) -> int:
    there = source.topics()
    copied = storage.topics_to_copy(source) if wanted is None else there.keys() & {*wanted}
    return sum(storage.topic_size(source, there[name]) for name in copied)


def note_complete(topic: str) -> None:
    typer.echo(f"commitlog: {topic}: passed over: an earlier run has completed it", err=True)


class Progress:
    """Prints each partition as its copy ends, and on stderr those that cannot be copied."""

    def __init__(self, as_json: bool, command: str = "copy") -> None:
        self._as_json, self._command = as_json, command
        self._copied = self._damaged = 0

    def show(self, copied: Iterator[storage.CopiedPartition], size: int, passes: int) -> None:
        with bar(self._command, size * passes) as done:
            for each in copied:
                self._copied += 1
                done.end(each.size * passes)
                if self._as_json:
                    print_json([each._asdict()])
                    continue
                typer.echo(
                    f"{each.topic}-{each.partition}: offsets {each.log_start_offset} to {each.log_end_offset}, "
                    f"{storage.counted(each.segments, 'segment')} with {each.size:,} bytes"
                )

    def note_damage(self, partition: storage.TopicPartition, error: storage.CorruptionError) -> None:
        self._damaged += 1
        reason = storage.printable(str(error))
        typer.echo(f"commitlog: {partition.topic}-{partition.partition}: damaged, not copied: {reason}", err=True)

    def note_complete(self, topic: str) -> None:
        note_complete(topic)

    def end(self) -> None:
        """Exits with 3 if partitions were damaged."""
        if self._damaged:
            total = self._copied + self._damaged
            fail(
                f"{self._command}: {storage.counted(total, 'partition')}: {self._copied:,} done, "
                f"{self._damaged:,} damaged; once the source is repaired, run it again, and it goes on with those",
                storage.EXIT_DAMAGED,
            )
