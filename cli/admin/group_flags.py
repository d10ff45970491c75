"""The flags of ``commitlog groups``: those of ``kafka-consumer-groups``, and those for moving offsets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..flags import TOPIC, check_goes_with, complete_topic

List = Annotated[bool, typer.Option("--list", help="List group names; with --state or --type, show these too.")]
Describe = Annotated[
    bool, typer.Option("--describe", help="Show offsets and lag; with --state or --members, those instead.")
]
Delete = Annotated[bool, typer.Option("--delete", help="Delete groups; with --dry-run, only print which.")]
DeleteOffsets = Annotated[bool, typer.Option("--delete-offsets", help="Delete a group's offsets for --topic.")]
ResetOffsets = Annotated[
    bool, typer.Option("--reset-offsets", help="Reset offsets; without --execute, only print them.")
]
Group = Annotated[list[str] | None, typer.Option(help="A group. Repeatable.")]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="Select all groups.")]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="[STATES]",
        help="Show states instead of offsets; with --list, only groups in these states: Stable,Empty.",
    ),
]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="[TYPES]", help="With --list: show types, or only groups of these types: Classic,Consumer."
    ),
]
Offsets = Annotated[bool, typer.Option("--offsets", help="Show offsets and lag (the default).")]
Members = Annotated[bool, typer.Option("--members", help="Show members of the last generation instead of offsets.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="With --members: also show assignments.")]
Topic = Annotated[
    list[str] | None,
    typer.Option(
        *TOPIC, autocompletion=complete_topic, help="A topic, or some of its partitions: orders:0,2. Repeatable."
    ),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="Select all topics the group has offsets for.")]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="Reset to the log start.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="Reset to the log end.")]
ToCurrent = Annotated[
    bool, typer.Option("--to-current", help="Reset to the committed offset, or to the log end if there is none.")
]
ToOffset = Annotated[int | None, typer.Option(help="Reset to this offset, or to the nearest one in the log.")]
ToDatetime = Annotated[
    str | None, typer.Option(help="Reset to the first record at or after a time: 2026-11-21T06:00:00.000, in UTC.")
]
ByDuration = Annotated[
    str | None, typer.Option(help="Reset to the first record that is at most this old: P1DT2H30M10S.")
]
ShiftBy = Annotated[int | None, typer.Option(help="Shift by this many offsets; backwards if negative.")]
FromFile = Annotated[
    Path | None,
    typer.Option(
        metavar="CSV",
        help="Reset to offsets from a file of topic,partition,offset; rows begin with the group if there are several.",
    ),
]
Export = Annotated[bool, typer.Option("--export", help="Print the new offsets in the format of --from-file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing.")]
Execute = Annotated[bool, typer.Option("--execute", help="Commit the new offsets of --reset-offsets.")]
MigrateOffsets = Annotated[
    bool,
    typer.Option(
        "--migrate-offsets",
        help="Copy offsets between ZooKeeper's nodes and the log; without --execute, only print them.",
    ),
]
From = Annotated[str | None, typer.Option("--from", metavar="PLACE", help="Where they are: zookeeper or log.")]
To = Annotated[str | None, typer.Option("--to", metavar="PLACE", help="Where they are copied to: log or zookeeper.")]
ZooKeeperConnect = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="The ZooKeeper, such as h1:2181/chroot; by default files beside the log."),
]


class Asked(NamedTuple):
    """The groups and details selected by flags."""

    groups: Sequence[str]
    all_groups: bool
    topics: Sequence[str]
    all_topics: bool
    states: str | None  # None: not given; empty: all
    types: str | None
    members: bool
    verbose: bool
    execute: bool
    export: bool

    @property
    def names(self) -> Sequence[str] | None:
        """The selected groups; None: all."""
        return None if self.all_groups else self.groups

    def check(self, action: str, *, offsets: bool, is_dry: bool, as_json: bool) -> None:
        """Raises BadParameter for flags that cannot be used together, or not with this action."""
        if (self.execute and is_dry) or (self.export and as_json):
            raise typer.BadParameter("--execute and --dry-run cannot be used together, nor can --export and --json")
        if (self.states is not None) + self.members + offsets > 1:
            raise typer.BadParameter("only one of --members, --offsets and --state can be used")
        if action != "--list" and (self.states or self.types is not None):
            raise typer.BadParameter("--type, and values for --state, need --list")
        changes = ("--reset-offsets", "--delete-offsets")
        check_goes_with(action, changes, topic=self.topics, all_topics=self.all_topics)
