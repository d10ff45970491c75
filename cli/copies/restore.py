"""``commitlog restore``: creates a log directory from a snapshot, or from a backup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from ... import storage
from ..flags import AsJson, DryRun
from ..maintenance.run import Topics
from ..output import print_json
from .backup import KeyFile, unlocked
from .from_backup import Wanted, from_backup
from .snapshot import facts

From = Annotated[
    str, typer.Option("--from", help="The directory of the snapshot; or a backup, a folder or s3://bucket/folder.")
]
LogDir = Annotated[
    str, typer.Option(help="The log directory to create, missing or empty; or a log in use, if topics are chosen.")
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Of a backup, not the newest moment but the last one up to this time, or of this name.",
    ),
]

Rename = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OLD=NEW",
        help="Of a backup, copy topic OLD as NEW, with the offsets of groups. Repeatable; --topics is not needed.",
    ),
]
Prefix = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Of a backup, copy topics under their names with this before them.")
]


def restore(
    *,
    source: From,
    log_dir: LogDir,
    at: At = None,
    topics: Topics = None,
    rename: Rename = None,
    prefix: Prefix = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a log directory from a snapshot or a backup. Everything is copied; the source does not change.

    Of a backup, every byte is compared with its checksum. With --topics, only these topics and the offsets of groups
    for them are copied, also into a log directory that has others; --rename and --prefix give them other names there.

    A snapshot is refused if a file is missing or has changed its size. File contents are not checked: run commitlog
    verify afterwards.

    Records that a streaming query wrote after the snapshot are missing, and the query does not write them again,
    because its checkpoint is newer. Its writes are therefore refused here until you restore a checkpoint as old as the
    snapshot, or accept the gap.
    """
    place = _backup_at(source)
    if place is not None:
        asked = Wanted(at, topics, rename or (), prefix or "")
        from_backup(unlocked(place, key_file), log_dir, asked, dry_run=dry_run, as_json=as_json)
        return
    if at is not None or topics or rename or prefix or key_file is not None:
        raise typer.BadParameter(
            f"--at, --topics, --rename, --prefix and --key-file are for backups, and {source} has none"
        )
    log_dir = storage.location(log_dir)
    taken = storage.read_snapshot(source) if dry_run else storage.restore_log(source, log_dir)
    writers = list(_newest_batches(f"{source}/{storage.LOG_FOLDER}"))
    if as_json:
        newest = [each._asdict() for each in writers]
        row = {"log_dir": log_dir, "snapshot": source, **facts(taken), "restored": not dry_run, "writers": newest}
        print_json([row])
        return
    size = taken.bytes_of(linked=True) + taken.bytes_of(linked=False)
    did = "would restore" if dry_run else "restored"
    typer.echo(
        f"{did} {storage.counted(len(taken.partitions), 'partition')}, {storage.counted(len(taken.files), 'file')} "
        f"with {size:,} bytes, as they were in {taken.source} at {storage.instant(taken.taken_at_ms)}"
    )
    for each in writers:
        typer.echo(f"writer {each.txn_app_id} has batches up to {each.newest_batch} in topic {each.topic}")
    if writers:
        typer.echo(
            "a query whose checkpoint is newer is refused when it writes here: the rows in between would be missing. "
            "Restore a checkpoint as old as the snapshot, or do what the error says"
        )


def _backup_at(source: str) -> storage.BackupPlace | None:
    place = storage.open_backup(source)
    return place if storage.is_backup(place) else None


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
        for partition, committed in sorted(offsets.items()):
            if (topic := storage.progress_topic(partition)) is not None:
                yield _NewestBatch(group, topic, committed.offset - 1)
