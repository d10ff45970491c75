"""``commitlog copy``: copies topics to another log, from or to a directory or an object store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import Annotated

import typer

from ... import storage
from ..flags import AsJson
from ..output import print_json
from .bars import bar

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
    being written or maintained, it copies what is there when its turn comes. Run again, a copy to an object store
    goes on where it ended; a copy to a directory needs one that does not have the topics.
    """
    wanted = storage.parse_names("--topics", topics) if topics else None
    with storage.LogManager.open(source) as found, ExitStack() as stack:
        if storage.is_store_url(to):
            log = storage.open_root(to, create=True)
            copied = storage.copy_to_bucket(found, log, wanted)
            _show(copied, _bytes_of(found, wanted), PASSES_TO_STORE, as_json=as_json)
            storage.copy_groups(found, log, wanted)
        else:
            manager = stack.enter_context(storage.LogManager.open(to, create=True))
            copied = storage.copy_to_directory(found, manager, wanted)
            _show(copied, _bytes_of(found, wanted), PASSES_TO_DIRECTORY, as_json=as_json)
            storage.copy_groups(found, manager, wanted)


def _bytes_of(source: storage.LogManager, wanted: Collection[str] | None) -> int:
    there = source.topics()
    copied = there.keys() - storage.INTERNAL_TOPICS if wanted is None else there.keys() & {*wanted}
    return sum(storage.topic_size(source, there[name]) for name in copied)


def _show(copied: Iterator[storage.CopiedPartition], size: int, passes: int, *, as_json: bool) -> None:
    with bar("copy", size * passes) as done:
        for each in copied:
            done.end(each.size * passes)
            if as_json:
                print_json([each._asdict()])
            else:
                typer.echo(
                    f"{each.topic}-{each.partition}: offsets {each.log_start_offset} to {each.log_end_offset}, "
                    f"{each.segments:,} segments with {each.size:,} bytes"
                )
