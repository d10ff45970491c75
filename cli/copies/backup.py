"""``commitlog backup``: adds the state of a log to a backup, and checks and cleans it up."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

from ... import storage
from ..arguments import settings_given
from ..flags import AsJson
from ..maintenance.bars import bar
from ..output import fail, print_json
from ..signals import cleaning_up

LogDir = Annotated[
    str | None,
    typer.Option(envvar="COMMITLOG_LOG_DIR", help="The log directory, as in Kafka's log.dirs.", show_envvar=True),
]
To = Annotated[str, typer.Option("--to", help="The backup: a folder, or s3://bucket/folder; made if it is missing.")]
Keep = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="Then delete all but the newest of each period: hourly=24,daily=7,weekly=4."),
]
Staging = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where to make hard links for the moment; by default beside the log directory."),
]
KeyFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Encrypt the backup, or read an encrypted one, with the key in this file, 64 hexadecimal digits. Needs "
        "the extra [encryption].",
    ),
]
Verify = Annotated[bool, typer.Option("--verify", help="Back nothing up: read every byte of the backup and check it.")]
List = Annotated[bool, typer.Option("--list", help="Back nothing up: list the moments that can be restored.")]


def backup(
    *,
    to: To,
    log_dir: LogDir = None,
    keep: Keep = None,
    staging: Staging = None,
    key_file: KeyFile = None,
    verify: Verify = False,
    is_list: List = False,
    as_json: AsJson = False,
) -> None:
    """Add the state of a log directory, at one moment, to a backup. commitlog restore brings it back.

    Only what no earlier backup has is stored. Writers wait while links are made, and retention and compaction may run.
    A broker must be stopped. Killed at any time, it leaves the earlier backups as they are.
    """
    place = storage.open_backup(to)
    if verify and is_list:
        raise typer.BadParameter("give one of --verify and --list")
    if (verify or is_list) and (keep is not None or staging is not None):
        raise typer.BadParameter("--verify and --list change nothing: leave --keep and --staging out")
    if is_list:
        _list(place, as_json)
    elif verify:
        _verify(unlocked(place, key_file), as_json)
    elif log_dir is None:
        raise typer.BadParameter("give --log-dir")
    else:
        _take(unlocked(place, key_file), log_dir, keep, staging, as_json)


def unlocked(place: storage.BackupPlace, key_file: str | None) -> storage.BackupPlace:
    """Returns the place, unlocked with the key in the file if one is given."""
    with settings_given():
        return storage.unlock_backup(place, None if key_file is None else storage.BackupKey.read(key_file))


def _take(place: storage.BackupPlace, log_dir: str, keep: str | None, staging: str | None, as_json: bool) -> None:
    with settings_given():
        rule = None if keep is None else storage.KeepRule.parse(keep)
    with cleaning_up(), storage.LogManager.open(log_dir) as manager:
        storage.check_outside(place.path, manager)  # before the lock, which makes the folder
        with place.locked():
            size = sum(storage.topic_size(manager, topic) for topic in manager.topics().values())
            with bar("backup", size):
                taken = storage.take_backup(manager, place, staging=staging)
            pruned = None if rule is None else storage.prune_backup(place, rule, taken.cut.name)
    cut = taken.cut
    if as_json:
        row = {"backup": to_json(cut), "stored_bytes": taken.stored_bytes, "stored_pieces": taken.stored_pieces}
        print_json([row | ({} if pruned is None else {"deleted": pruned._asdict()})])
        return
    typer.echo(
        f"backup {cut.name}: {storage.counted(len(cut.partitions), 'partition')} of {cut.source}, "
        f"{storage.counted(len(cut.files), 'file')} with {cut.size:,} bytes; stored {taken.stored_bytes:,} bytes that "
        "no earlier backup has"
    )
    if pruned is not None:
        typer.echo(
            f"deleted {storage.counted(pruned.cuts, 'backup')}, and {storage.counted(pruned.objects, 'piece')} with "
            f"{pruned.bytes:,} bytes"
        )


def to_json(cut: storage.Cut) -> dict[str, Any]:
    """Returns the fields of a backup in JSON output."""
    return {
        "name": cut.name,
        "source": cut.source,
        "taken_at": cut.taken_at_ms,
        "partitions": cut.partitions,
        "files": len(cut.files),
        "bytes": cut.size,
    }


def _list(place: storage.BackupPlace, as_json: bool) -> None:
    cuts = storage.list_cuts(place)
    if not cuts:
        _fail_without(place)
    for each in cuts:
        if as_json:
            print_json([{"name": each.name, "taken_at": each.taken_at_ms}])
        else:
            typer.echo(f"{each.name}\t{storage.instant(each.taken_at_ms)}")


def _fail_without(place: storage.BackupPlace) -> NoReturn:
    """Ends with the error that there is no backup; perhaps the name was mistyped."""
    fail(f"{place.path}: is no backup, or no first one was completed")


def _verify(place: storage.BackupPlace, as_json: bool) -> None:
    cuts = storage.list_cuts(place)
    if not cuts:
        _fail_without(place)
    read = 0

    def note(size: int) -> None:
        nonlocal read
        read += size

    problems = 0
    for each in storage.verify_backup(place, note):
        problems += 1
        if as_json:
            print_json([each._asdict()])
            continue
        files = f"; {', '.join(each.files)}" if each.files else ""
        typer.echo(f"damaged: {each.what}: needed by {', '.join(each.cuts)}{files}")
    summary = f"backup --verify: {storage.counted(len(cuts), 'backup')}, {read:,} bytes read: "
    typer.echo(summary + (f"{problems:,} damaged" if problems else "sound"), err=as_json)
    if problems:
        raise typer.Exit(storage.EXIT_DAMAGED)
