"""``commitlog tier restore``: topics from a tier into a log directory, or into a cluster whose tier it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from ... import storage
from ..arguments import settings_given
from ..output import print_json
from .backup import unlocked
from .copy import Progress
from .from_backup import Wanted


@dataclass(frozen=True)
class Lost:
    """The remains of a log, from the flags."""

    tier: str
    keys: Sequence[str]
    topics: Sequence[str] | None
    backup: str | None  # a backup of the directory that was copied to the tier, or the remains of that directory
    at: str | None = None
    key_file: str | None = None

    @contextmanager
    def known(self) -> Iterator[storage.LogManager | None]:
        """Yields the remains of the log beside the tier; None: there are none."""
        if self.backup is None:
            if self.at is not None or self.key_file is not None:
                raise typer.BadParameter("--at and --key-file are for --backup")
            yield None
            return
        place = storage.open_backup(self.backup)
        if storage.is_backup(place):
            place = unlocked(place, self.key_file)
            cut = storage.find_cut(place, Wanted(self.at, None).moment)
            with storage.opened_without_records(place, cut) as manager:
                yield manager
        else:
            with storage.LogManager.open(self.backup) as manager:
                yield manager

    @contextmanager
    def opened(self, not_ids: Sequence[str] = ()) -> Iterator[tuple[storage.LogManager, storage.LogManager | None]]:
        """Yields the tier as a log, and the remains of the log, as :meth:`known` does."""
        with settings_given():
            topics = storage.parse_names("--topics", self.topics) if self.topics else None
        with ExitStack() as stack:
            known = stack.enter_context(self.known())
            source = storage.opened_to_restore(self.tier, keys=self.keys, topics=topics, known=known, not_ids=not_ids)
            yield stack.enter_context(source), known


def to_directory(lost: Lost, log_dir: str, *, dry_run: bool, as_json: bool) -> None:
    """Copies topics to a log directory, and then commits the offsets of groups for them."""
    progress = Progress(as_json, "tier restore")
    with lost.opened() as (source, known):
        topics = [*source.topics()]
        if dry_run:
            _show_planned(source, known, as_json)
            return
        with storage.LogManager.open(log_dir, create=True) as target:
            copied = storage.restore_to_directory(source, target, progress.note_damage, progress.note_complete)
            progress.show(copied, sum(storage.topic_size(source, each) for each in source.topics().values()), 3)
            if known is not None:
                _show_groups(*storage.restore_groups(known, target, topics), as_json)
    progress.end()


def to_cluster(
    lost: Lost, cluster: tuple[str, dict[str, str]], configs: dict[str, str], *, dry_run: bool, as_json: bool
) -> None:
    """Publishes topics to a cluster, and commits the offsets of groups for them."""
    from ...mirror.brokers.cluster import Cluster  # noqa: PLC0415  with the extra kafka
    from ...mirror.tiers.restoring import restore_to_cluster, topic_ids  # noqa: PLC0415

    with settings_given():
        target = Cluster.parse(*cluster)
    storage.check_publishable(lost.tier, lost.keys)
    store = storage.open_objects(lost.tier)

    def tell(step: str) -> None:
        typer.echo(f"would {step}" if dry_run else step, err=as_json)

    with lost.opened(sorted(topic_ids(target))) as (source, known):
        done = restore_to_cluster(source, known, store, target, configs, dry_run=dry_run, tell=tell)
    if not dry_run:
        for each in done.published:
            _show_partition(each.partition, each.log_start_offset, each.log_end_offset, as_json)
    _show_groups(done.groups, done.ahead, as_json)


def _show_planned(source: storage.LogManager, known: storage.LogManager | None, as_json: bool) -> None:
    ends = {}
    for topic in source.topics().values():
        for place in topic.topic_partitions:
            with source.open_reader(*place) as reader:
                aborts = len(reader.producers.ongoing)
                ends[place] = reader.log_end_offset + aborts
                _show_partition(place, reader.log_start_offset, ends[place], as_json, "would restore ")
    if known is not None:
        _show_groups(*storage.groups_within(known, ends), as_json)


def _show_partition(partition: storage.TopicPartition, start: int, end: int, as_json: bool, did: str = "") -> None:
    if as_json:
        print_json([{**partition._asdict(), "log_start_offset": start, "log_end_offset": end}])
    else:
        typer.echo(f"{did}{partition}: offsets {start} to {end}")


def _show_groups(groups: Any, ahead: Sequence[storage.AheadGroup], as_json: bool) -> None:
    for each in ahead:
        if as_json:
            print_json([{**each._asdict(), **each.partition._asdict()}])
            continue
        typer.echo(
            f"group {each.group} was at offset {each.offset} of {each.partition}, which the tier does not have: it "
            f"stands at {each.log_end_offset}"
        )
    typer.echo(f"{storage.counted(len(groups), 'group')} with offsets", err=as_json)
