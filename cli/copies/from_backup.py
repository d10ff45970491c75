"""Restoring from a backup: a whole log directory, or topics into a log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import typer

from ... import storage
from ..arguments import settings_given
from ..maintenance.bars import bar
from ..output import print_json
from ..signals import cleaning_up
from .backup import to_json
from .copy import note_complete

_NAME = re.compile(r"[0-9]{8}(T[0-9.]*(Z(-[0-9a-f]*)?)?)?")  # of a backup, or how one begins


@dataclass(frozen=True)
class Wanted:
    """The choice of what to restore from a backup, from the flags."""

    at: str | None
    topics: Sequence[str] | None
    rename: Sequence[str] = ()
    prefix: str = ""

    @property
    def moment(self) -> str | int | None:
        """A time in ms, or the beginning of a backup's name; None: the newest.

        ``20261121T0600`` could be both, and is a name: as a time, it would lead to the backup before that one.
        """
        if self.at is None or _NAME.fullmatch(self.at):
            return self.at
        try:
            return storage.parse_instant(self.at)
        except ValueError:
            return self.at

    @property
    def new_names(self) -> storage.NewNames:
        """Raises InvalidConfigError."""
        pairs = [text.partition("=") for text in self.rename]
        wrong = [old + equals + new for old, equals, new in pairs if not (old and new)]
        if wrong:
            raise storage.InvalidConfigError(f"--rename {wrong[0]!r}: must be OLD=NEW, both names of topics")
        names = {old: new for old, _, new in pairs}
        if len(names) < len(pairs):
            raise storage.InvalidConfigError("--rename has a topic twice: run restore again for its other name")
        return storage.NewNames(self.prefix, names)

    @property
    def names(self) -> Sequence[str] | None:
        """The topics to copy; None: all of the backup."""
        renamed = [*self.new_names.names]
        if self.topics:
            return [*dict.fromkeys([*storage.parse_names("--topics", self.topics), *renamed])]
        return renamed if renamed and not self.prefix else None

    @property
    def is_copy(self) -> bool:
        """Whether topics are copied into a log, instead of restoring a whole log directory."""
        return bool(self.topics or self.rename or self.prefix)


def from_backup(place: storage.BackupPlace, log_dir: str, wanted: Wanted, *, dry_run: bool, as_json: bool) -> None:
    """Restores the backup of a time or name, and prints what was restored."""
    cut = storage.find_cut(place, wanted.moment)
    with settings_given():
        names, new_names = wanted.names, wanted.new_names
        if wanted.is_copy:
            storage.check_restorable_topics(cut, names, new_names)
    copied = [] if dry_run else _restore(place, cut, log_dir, wanted)
    if as_json:
        row = {"log_dir": log_dir, "backup": to_json(cut), "topics": names, "restored": not dry_run}
        print_json([row | ({"copied": [each._asdict() for each in copied]} if wanted.is_copy else {})])
        return
    did = "would restore" if dry_run else "restored"
    listed = [each if new_names.of(each) == each else f"{each} as {new_names.of(each)}" for each in names or ()]
    all_of_it = f"{storage.counted(len(cut.partitions), 'partition')}, {storage.counted(len(cut.files), 'file')}"
    what = f"topics {', '.join(listed)}" if names else all_of_it
    added = f", with {wanted.prefix} before their names" if wanted.prefix and not names else ""
    typer.echo(f"{did} {what}{added}, as they were in {cut.source} at {storage.instant(cut.taken_at_ms)}")


def _restore(
    place: storage.BackupPlace, cut: storage.Cut, log_dir: str, wanted: Wanted
) -> list[storage.CopiedPartition]:
    if not wanted.is_copy and not storage.is_store_url(log_dir):
        with bar("restore", cut.size):
            storage.restore_backup(place, cut, log_dir)
        return []
    names, new_names = wanted.names, wanted.new_names
    with cleaning_up(), storage.LogManager.open_or_make(log_dir) as target:
        return list(storage.restore_topics(place, cut, target, names, None, new_names, note_complete))
