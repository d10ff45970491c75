"""The output of ``commitlog groups``: Kafka's columns, or JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeAlias

import typer

from ... import storage
from ..output import Column, print_json, print_table

OFFSETS = (
    Column("GROUP"),
    Column("TOPIC"),
    Column("PARTITION", 10, is_number=True),
    Column("CURRENT-OFFSET", is_number=True),
    Column("LOG-END-OFFSET", is_number=True),
    Column("LAG", is_number=True),
    Column("CONSUMER-ID"),
    Column("HOST"),
    Column("CLIENT-ID"),
)
SHARE_OFFSETS = (
    *OFFSETS[:3],
    Column("START-OFFSET", 13, is_number=True),
    Column("LAG", is_number=True),
)
NEW_OFFSETS = (
    Column("GROUP", 30),
    Column("TOPIC", 30),
    Column("PARTITION", 10, is_number=True),
    Column("NEW-OFFSET", is_number=True),
)
STATES = (Column("GROUP", 25), Column("ASSIGNMENT-STRATEGY", 20), Column("STATE"), Column("#MEMBERS", is_number=True))
STATES_KNOWN = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling"),
    *("NotReady", "Unknown"),
)
TYPES_KNOWN = ("Classic", "Consumer", "Share", "Streams", "Unknown")


# A string, because looking these types up would import numpy.
_MemberColumn: TypeAlias = "tuple[Column, Callable[[storage.GroupDescription, storage.GroupMember], object]]"


def chosen_among(flag: str, known: Sequence[str], given: str | None) -> frozenset[str]:
    """Returns the values in a comma-separated ``--state`` or ``--type``, ignoring case; all of ``known`` if empty."""
    asked = [word.strip() for word in (given or "").split(",") if word.strip()]
    by_case = {word.lower(): word for word in known}
    wrong = [word for word in asked if word.lower() not in by_case]
    if wrong:
        raise typer.BadParameter(f"{flag} {given!r}: choose from {', '.join(known)}")
    return frozenset(by_case[word.lower()] for word in asked) or frozenset(known)


def show_list(groups: Iterable[storage.GroupDescription], *, with_type: bool, with_state: bool, as_json: bool) -> None:
    """Prints group names, one per line, or a table if types or states are requested."""
    if as_json:
        print_json(_listed_json(each, with_type=with_type) for each in groups)
    elif with_type or with_state:
        shown = (("TYPE", with_type), ("STATE", with_state))
        columns = (Column("GROUP", 25), *(Column(name, 20) for name, is_asked in shown if is_asked))
        print_table(columns, [_listed(each, with_type=with_type, with_state=with_state) for each in groups])
    else:
        for each in groups:
            typer.echo(storage.printable(each.name))


def _listed_json(group: storage.GroupDescription, *, with_type: bool) -> dict[str, Any]:
    type_ = {"type": group.type} if with_type else {}
    return {"group": group.name, **type_, "state": group.state, "members": len(group.members)}


def _listed(group: storage.GroupDescription, *, with_type: bool, with_state: bool) -> tuple[str, ...]:
    return (group.name, *((group.type,) if with_type else ()), *((group.state,) if with_state else ()))


def show_offsets(lags: Iterable[Iterable[storage.PartitionLag]], *, as_json: bool) -> None:
    """Prints offsets and lag, one table per group. Explains on stderr the offsets of sinks, which have no lag."""
    if as_json:
        print_json(_json(lag) for of_group in lags for lag in of_group)
        return
    sinks: dict[str, str] = {}
    for of_group in lags:
        shown = list(of_group)
        print_table(OFFSETS, map(_row, shown))
        sinks |= {lag.topic: lag.sink_topic for lag in shown if lag.sink_topic is not None}
    for topic, written in sinks.items():
        typer.echo(
            f"commitlog: {topic} is no topic: its offset is the number of the micro-batch that a Spark query writes "
            f"next to topic {written}",
            err=True,
        )


def show_share_offsets(lags: Iterable[Iterable[storage.ShareLag]], *, as_json: bool) -> None:
    """Prints start offsets and lag of share groups, one table per group."""
    if as_json:
        print_json(asdict(lag) for of_group in lags for lag in of_group)
        return
    for of_group in lags:
        print_table(
            SHARE_OFFSETS, [(lag.group, lag.topic, lag.partition, lag.start_offset, lag.lag) for lag in of_group]
        )


def show_states(groups: Iterable[storage.GroupDescription], *, as_json: bool) -> None:
    """Prints one row per group."""
    if as_json:
        print_json(
            {
                "group": each.name,
                "assignment_strategy": each.protocol,
                "state": each.state,
                "members": len(each.members),
            }
            for each in groups
        )
    else:
        print_table(STATES, [(each.name, each.protocol, each.state, len(each.members)) for each in groups])


def show_members(groups: Iterable[storage.GroupDescription], *, is_verbose: bool, as_json: bool) -> None:
    """Prints members, one table per group; with ``is_verbose``, also static members' names and each assignment."""
    if as_json:
        print_json(_member(each, member) for each in groups for member in each.members)
        return
    for each in groups:
        shown = _member_columns(each, is_verbose=is_verbose)
        rows = [[text(each, member) for _, text in shown] for member in each.members]
        print_table([column for column, _ in shown], rows)


def _member_columns(group: storage.GroupDescription, *, is_verbose: bool) -> list[_MemberColumn]:
    """Returns the columns of Kafka 3.9 for a group of the classic protocol, else those of Kafka 4."""
    is_static = any(member.instance_id for member in group.members)
    shown = [(Column("GROUP"), _group_name), (Column("CONSUMER-ID"), _consumer_id)]
    if is_static and (is_verbose or group.type == "Consumer"):
        shown.append((Column("GROUP-INSTANCE-ID", 17), lambda _, member: member.instance_id or ""))
    shown.append((Column("HOST"), lambda _, member: member.host))
    shown.append((Column("CLIENT-ID"), lambda _, member: member.client_id))
    shown.append((Column("#PARTITIONS", is_number=True), lambda _, member: len(member.partitions)))
    if is_verbose:
        shown += _ASSIGNMENTS.get(group.type, _EPOCHS_AND_ASSIGNMENTS)
        if any(member.is_classic for member in group.members):
            shown.append((Column("UPGRADED"), lambda _, member: str(not member.is_classic).lower()))
    return shown


def _group_name(group: storage.GroupDescription, _: storage.GroupMember) -> object:
    return group.name


def _consumer_id(_: storage.GroupDescription, member: storage.GroupMember) -> object:
    return member.consumer_id


def _named(partitions: Iterable[storage.TopicPartition]) -> str | None:
    """Returns partitions as Kafka 4 prints them: ``orders:0,1;payments:2``."""
    by_topic = _numbers_by_topic(sorted(partitions))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or None


def _assignment(member: storage.GroupMember) -> str | None:
    """Returns the partition numbers of each topic as Kafka 3.9.1 prints them: ``(0,1), (2)``."""
    by_topic = _numbers_by_topic(member.partitions)
    return ", ".join(sorted(f"({','.join(sorted(numbers))})" for numbers in by_topic.values())) or None


def _numbers_by_topic(partitions: Iterable[storage.TopicPartition]) -> dict[str, list[str]]:
    """Returns each topic's partition numbers as text, such as ``["0", "4"]``, in the order of ``partitions``."""
    by_topic: dict[str, list[str]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(str(partition))
    return by_topic


_EPOCHS_AND_ASSIGNMENTS: Sequence[_MemberColumn] = (
    (Column("CURRENT-EPOCH", is_number=True), lambda _, member: member.epoch),
    (Column("CURRENT-ASSIGNMENT", 20), lambda _, member: _named(member.partitions)),
    (Column("TARGET-EPOCH", is_number=True), lambda group, _: group.target_epoch),
    (Column("TARGET-ASSIGNMENT", 20), lambda _, member: _named(member.target)),
)
_ASSIGNMENTS: Mapping[str, Sequence[_MemberColumn]] = {
    "Classic": ((Column("ASSIGNMENT"), lambda _, member: _assignment(member)),),
    "Share": (
        (Column("MEMBER-EPOCH", is_number=True), lambda _, member: member.epoch),
        (Column("ASSIGNMENT"), lambda _, member: _named(member.partitions)),
    ),
}


def _row(lag: storage.PartitionLag) -> tuple[object, ...]:
    member = lag.member
    return (
        lag.group,
        lag.topic,
        lag.partition,
        None if lag.committed is None else lag.committed.offset,
        None if lag.log is None else lag.log.log_end_offset,
        lag.lag,
        *((None, None, None) if member is None else (member.consumer_id, member.host, member.client_id)),
    )


def _json(lag: storage.PartitionLag) -> dict[str, Any]:
    names = [column.name.lower().replace("-", "_") for column in OFFSETS]
    shown: dict[str, Any] = dict(zip(names, _row(lag), strict=True))
    if lag.sink_topic is not None:
        shown["sink_topic"] = lag.sink_topic
    shown["lag_seconds"] = None if lag.lag_ms is None else lag.lag_ms / 1000
    if lag.log is not None:
        shown |= {"log_start_offset": lag.log.log_start_offset, "last_stable_offset": lag.log.last_stable_offset}
    if lag.committed is not None:
        shown |= {"metadata": lag.committed.metadata, "commit_timestamp": lag.committed.commit_timestamp}
        if lag.committed.topic_id is not None:
            shown["topic_id"] = lag.committed.topic_id
    return shown


def _member(group: storage.GroupDescription, member: storage.GroupMember) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "group": group.name,
        "consumer_id": member.consumer_id,
        "group_instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partitions": _partitions_json(member.partitions),
    }
    if member.epoch is not None:
        shown |= {"epoch": member.epoch, "target_epoch": group.target_epoch}
        shown["target_partitions"] = _partitions_json(member.target)
        shown["is_classic"] = member.is_classic
    return shown


def _partitions_json(partitions: Iterable[storage.TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
