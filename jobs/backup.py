"""Adds the state of a log directory to a backup: ``spark-submit jobs/backup.py --log-dir DIR --to BACKUP``.

For schedulers that start programs under spark-submit; the driver does it all, as ``commitlog backup`` does. ``--keep
hourly=24,daily=7,weekly=4`` then deletes older backups, and ``--verify`` reads every byte of the backup back. Exit code
0: all is well, 3: the backup is damaged, 2: wrong usage, 1: anything else (locked, disk, a running broker).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pyspark_commitlog.pipeline.job.command_line import Parser, add_log_dir, exit_code
from pyspark_commitlog.pipeline.job.stderr import errors_apart
from pyspark_commitlog.storage import (
    EXIT_DAMAGED,
    BackupKey,
    BackupPlace,
    CorruptionError,
    KeepRule,
    LogManager,
    LogStoreError,
    check_outside,
    counted,
    log_to_stderr,
    open_backup,
    prune_backup,
    take_backup,
    unlock_backup,
    verify_backup,
)


def main(arguments: Sequence[str] | None = None) -> int:
    log_to_stderr()
    with errors_apart():
        options = _parser().parse_args(arguments)
        try:
            keep = None if options.keep is None else KeepRule.parse(options.keep)
            key = None if options.key_file is None else BackupKey.read(options.key_file)
            place = unlock_backup(open_backup(options.to), key)
            _take(place, options, keep)
            return _verify(place) if options.verify else 0
        except CorruptionError as error:
            print(f"backup: {error}", file=sys.stderr)
            return EXIT_DAMAGED
        except (LogStoreError, OSError) as error:
            print(f"backup: {error}", file=sys.stderr)
            return exit_code(error)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_log_dir(parser)
    parser.add_argument("--to", required=True, help="the backup: a folder, or s3://bucket/folder")
    parser.add_argument("--keep", metavar="RULE", help="then delete all but the newest of each period")
    parser.add_argument("--staging", metavar="DIR", help="where to make hard links; default: beside the log directory")
    parser.add_argument("--key-file", metavar="FILE", help="encrypt the backup with the key in this file")
    parser.add_argument("--verify", action="store_true", help="then read every byte of the backup and check it")
    return parser


def _take(place: BackupPlace, options: argparse.Namespace, keep: KeepRule | None) -> None:
    with LogManager.open(options.log_dir) as manager:
        check_outside(place.path, manager)  # before the lock, which makes the folder
        with place.locked():
            taken = take_backup(manager, place, staging=options.staging)
            print(f"backup {taken.cut.name}: {taken.cut.size:,} bytes, of which {taken.stored_bytes:,} were stored")
            if keep is not None:
                pruned = prune_backup(place, keep, taken.cut.name)
                pieces = counted(pruned.objects, "piece")
                print(f"deleted {counted(pruned.cuts, 'backup')}, and {pieces} with {pruned.bytes:,} bytes")


def _verify(place: BackupPlace) -> int:
    problems = list(verify_backup(place))
    for each in problems:
        print(f"damaged: {each.what}: needed by {', '.join(each.cuts)}")
    print(f"backup --verify: {len(problems):,} damaged" if problems else "backup --verify: sound")
    return EXIT_DAMAGED if problems else 0


if __name__ == "__main__":
    sys.exit(main())
