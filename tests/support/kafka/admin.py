"""What a broker tells Java's admin client of topics and groups, without a record read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tests.support.kafka.clients import Isolation, ask

OffsetAsked = int | Literal["earliest", "latest", "max_timestamp"]  # a number: the first record not older, ms


@dataclass(frozen=True, order=True)
class ListedOffset:
    """An answer of the broker. Where no record fits, ``offset`` and ``timestamp_ms`` are -1."""

    partition: int
    asked: OffsetAsked
    offset: int
    timestamp_ms: int
    leader_epoch: int | None


@dataclass(frozen=True, order=True)
class KnownProducer:
    """A producer that the leader of a partition knows; -1 where it never wrote, no marker came, nothing is open."""

    partition: int
    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_first_offset: int


def list_offsets(
    bootstrap: str, topic: str, asked: Iterable[OffsetAsked], isolation: Isolation = "read_uncommitted"
) -> list[ListedOffset]:
    """ListOffsets, which ``offsetsForTimes`` of a consumer asks too: a row for each of ``asked`` and each partition."""
    request = {"do": "offsets", "bootstrap": bootstrap, "topic": topic, "asked": [*asked], "isolation": isolation}
    return [ListedOffset(**row) for row in ask(request, timeout_s=60)]


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    """(offset, metadata) that a group committed last, by topic and partition."""
    rows = ask({"do": "committed", "bootstrap": bootstrap, "group": group}, timeout_s=60)
    return {(row["topic"], row["partition"]): (row["offset"], row["metadata"]) for row in rows}


def known_producers(bootstrap: str, topic: str) -> list[KnownProducer]:
    """DescribeProducers, in order of partition and producer id."""
    rows = ask({"do": "producers", "bootstrap": bootstrap, "topic": topic}, timeout_s=60)
    return sorted(KnownProducer(**row) for row in rows)
