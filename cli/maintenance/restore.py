"""``commitlog restore``: creates a log directory from a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from ... import storage
from ..flags import AsJson, DryRun
from ..output import print_json
from .snapshot import facts

From = Annotated[str, typer.Option("--from", help="The directory of the snapshot.")]
LogDir = Annotated[str, typer.Option(help="The log directory to create; it must be missing or empty.")]


def restore(*, source: From, log_dir: LogDir, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Create a log directory from a snapshot. Everything is copied; the snapshot does not change.

    A snapshot is refused if a file is missing or has changed its size. File contents are not checked: run commitlog
    verify afterwards.

    Records that a streaming query wrote after the snapshot are missing, and the query does not write them again,
    because its checkpoint is newer. Its writes are therefore refused here until you restore a checkpoint as old as the
    snapshot, or accept the gap.
    """
    is_url = storage.is_store_url(log_dir)
    log_dir = storage.store_url(log_dir) if is_url else storage.local_path(log_dir)
    if dry_run:
        taken = storage.read_snapshot(source)
    elif is_url:
        taken = storage.restore_to_bucket(source, storage.open_root(log_dir, create=True))
    else:
        taken = storage.restore_snapshot(source, log_dir)
    writers = list(_newest_batches(f"{source}/{storage.LOG_FOLDER}"))
    if as_json:
        newest = [each._asdict() for each in writers]
        row = {"log_dir": log_dir, "snapshot": source, **facts(taken), "restored": not dry_run, "writers": newest}
        print_json([row])
        return
    size = taken.bytes_of(linked=True) + taken.bytes_of(linked=False)
    did = "would restore" if dry_run else "restored"
    typer.echo(
        f"{did} {len(taken.partitions):,} partitions, {len(taken.files):,} files "
        f"with {size:,} bytes, as they were in {taken.source} at {storage.instant(taken.taken_at_ms)}"
    )
    for each in writers:
        typer.echo(f"writer {each.txn_app_id} has batches up to {each.newest_batch} in topic {each.topic}")
    if writers:
        typer.echo(
            "a query whose checkpoint is newer is refused when it writes here: the rows in between would be missing. "
            "Restore a checkpoint as old as the snapshot, or do what the error says"
        )


class _NewestBatch(NamedTuple):
    """The newest batch that a sink, or a named batch write, wrote to a topic."""

    txn_app_id: str
    topic: str
    newest_batch: int


def _newest_batches(directory: str) -> Iterator[_NewestBatch]:
    """Yields the newest batch of each sink in each topic, from the committed offsets in ``directory``.

    Only reports committed offsets that cannot be read: the directory is restored already.
    """
    try:
        with storage.LogManager.open(directory) as manager:
            groups = storage.GroupOffsets(manager).groups()
    except storage.LogStoreError as error:
        typer.echo(f"cannot show which batches the snapshot has: {error}", err=True)
        return
    for group, offsets in groups.items():
        for (topic, _), committed in sorted(offsets.items()):
            if topic.startswith(storage.SINK_PREFIX):
                yield _NewestBatch(group, topic.removeprefix(storage.SINK_PREFIX), committed.offset - 1)
