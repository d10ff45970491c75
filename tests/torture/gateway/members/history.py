"""What the members of a group noted, and which of it is a fault.

A turn is the time in which a member may process a partition: from its assignment until it has given the partition up,
is killed, or a gateway logs that the member is no more: its session is over, as it is stopped, does not poll, or has
not got on for too long. Turns of a partition never overlap; a turn begins where a commit was asked for, at or after all
that were answered before; it leaves nothing out. An assignment that a client hands on late, when it was
forgotten, gives it no turn: its commits are refused.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FOREVER_S = float("inf")
ACKNOWLEDGED_S = 2.0  # after which a client has said that it has what it got when it joined
LOGGED_S = 0.001  # the precision of a log's times
LOGGED = re.compile(r"(\S+ \S+) INFO group .* member '(.+)' (leaves|is removed, because .*|joins, .*)$", re.MULTILINE)


class Place(NamedTuple):
    """A partition."""

    topic: str
    number: int


class Note(NamedTuple):
    """A line of a member; times are of the machine's monotonic clock."""

    time_s: float
    kind: str
    topic: str = ""
    partition: int = -1
    offset: int = -1
    value: int = -1

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition)


class Logged(NamedTuple):
    """What a gateway logged of a member: that it joins, or is no more."""

    time_s: float
    member_id: str
    joins: bool


Log = Mapping[str, Sequence[Logged]]  # by member id, in the order of time


@dataclass
class Life:
    """A member's life: its notes, and when it was killed."""

    name: str
    notes: list[Note]
    killed_s: float = FOREVER_S


@dataclass
class Turn:
    """The time in which a member may process a partition."""

    member: str
    place: Place
    start_s: float
    end_s: float = FOREVER_S
    joined_s: float = -FOREVER_S  # when its member last joined before, if that was logged
    reads: list[int] = field(default_factory=list)  # offsets


def read_notes(path: Path) -> list[Note]:
    """The notes of a member, without a last line that it could not end."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [Note(*json.loads(line)) for line in lines]


def read_log(texts: Iterable[str]) -> Log:
    """What gateways of this machine logged of members."""
    since_s = time.time() - time.monotonic()
    found: dict[str, list[Logged]] = defaultdict(list)
    for when, member_id, what in (each for text in texts for each in LOGGED.findall(text)):
        time_s = datetime.fromisoformat(when.replace(",", ".")).timestamp() - since_s - LOGGED_S
        found[member_id].append(Logged(time_s, member_id, what.startswith("joins")))
    return {member_id: sorted(each) for member_id, each in found.items()}


def turns_of(life: Life, log: Log) -> list[Turn]:
    """The turns of a member, in the order in which they began."""
    found: list[Turn] = []
    now: dict[Place, Turn] = {}
    known: Sequence[Logged] = ()
    for note in life.notes:
        if note.kind == "known":
            known = log.get(note.topic, ())
        elif note.kind == "assigned":
            if note.place in now:  # librdkafka, if it joins again before the first is taken
                now[note.place].end_s = min(now[note.place].end_s, note.time_s)
            joined_s = max(
                (each.time_s for each in known if each.joins and each.time_s <= note.time_s), default=-FOREVER_S
            )
            now[note.place] = Turn(life.name, note.place, note.time_s, _forgotten_s(known, note.time_s), joined_s)
            found.append(now[note.place])
        elif note.kind == "read":
            now[note.place].reads.append(note.offset)
        elif note.kind in {"revoked", "lost"} and note.place in now:
            turn = now.pop(note.place)
            turn.end_s = min(turn.end_s, note.time_s)
    ended_s = next((each.time_s for each in life.notes if each.kind == "end"), FOREVER_S)
    for turn in found:
        turn.end_s = min(turn.end_s, ended_s, life.killed_s)
    return found


def is_forgotten(life: Life, log: Log) -> bool:
    """Whether no coordinator has a member any more, by what was logged last."""
    ids = [note.topic for note in life.notes if note.kind == "known"]
    return not ids or (ids[-1] in log and not log[ids[-1]][-1].joins)


def _forgotten_s(known: Sequence[Logged], start_s: float) -> float:
    """When a coordinator forgot a member that was assigned something: before that, if its client told it late."""
    before = [each for each in known if each.time_s <= start_s]
    if before and not before[-1].joins:
        return start_s
    return next((each.time_s for each in known if each.time_s > start_s and not each.joins), FOREVER_S)


def committed(lives: Iterable[Life]) -> dict[Place, int]:
    """The last offset of each partition whose commit was answered."""
    found: dict[Place, int] = defaultdict(int)
    for life in lives:
        for note in life.notes:
            if note.kind == "committed":
                found[note.place] = max(found[note.place], note.offset)
    return found


def faults(lives: list[Life], sent: dict[Place, dict[int, int]], log: Log) -> list[str]:
    """What is wrong; ``sent``: the value of each record that was acknowledged, by partition and offset."""
    turns: dict[Place, list[Turn]] = defaultdict(list)
    for each in sorted((turn for life in lives for turn in turns_of(life, log)), key=lambda turn: turn.start_s):
        turns[each.place].append(each)
    found = [text for each in turns.values() for text in (*_two_owners(each), *_gaps(each))]
    return [*found, *_starts(lives, turns), *_set_back(lives), *_unread(lives, sent)]


def _two_owners(turns: list[Turn]) -> Iterator[str]:
    """Turns that overlap, but for what Kafka 4.3.1 allows, too.

    librdkafka sends its second heartbeat before it takes what the first one gave it, and says there that it has
    nothing. What the target lacks by then is free at once, though the client is about to hand it on, and gives it up
    in the next moment. (See Kafka's CurrentAssignmentBuilder.ownsRevokedPartitions.)
    """
    for index, turn in enumerate(turns):
        for other in turns[:index]:
            is_acknowledged = turn.start_s - other.joined_s > ACKNOWLEDGED_S
            if is_acknowledged and turn.start_s < min(turn.end_s, other.end_s):
                yield (
                    f"two owners of {turn.place}: {turn.member} from {turn.start_s:.3f}, "
                    f"{other.member} from {other.start_s:.3f} to {other.end_s:.3f}"
                )


def _gaps(turns: list[Turn]) -> Iterator[str]:
    for turn in turns:
        for before, after in pairwise(turn.reads):
            if after != before + 1 and not _is_second_lookup(turn, after):
                yield f"{turn.member} read {after} after {before} of {turn.place}"


def second_lookups(lives: Iterable[Life], log: Log) -> int:
    """How often a member began again where its turn began, as librdkafka does beside Kafka 4.3.1, too."""
    turns = [turn for life in lives for turn in turns_of(life, log)]
    return sum(_is_second_lookup(turn, after) for turn in turns for after in turn.reads[1:])


def _is_second_lookup(turn: Turn, offset: int) -> bool:
    """Whether a member may have gone back to where the log begins, in a partition that had no commit when it got it.

    If librdkafka 2.16 looks up the start of such a partition and is assigned it again before the answer, it takes the
    first answer as outdated and looks up once more half a second later, though the second answer is there by then and
    is being read from (``rd_kafka_toppar_handle_Offset``). A rebalance in between makes it go there.
    """
    return offset == turn.reads[0] == 0


def _starts(lives: list[Life], turns: dict[Place, list[Turn]]) -> Iterator[str]:
    """Turns that begin before what was committed, or where nothing was."""
    asked, answered = _commits(lives, "ask"), _commits(lives, "committed")
    for place, each in turns.items():
        for turn in each:
            if turn.reads:
                first = turn.reads[0]
                least = max((note.offset for note in answered[place] if note.time_s <= turn.start_s), default=0)
                if first < least:
                    yield f"{turn.member} read {place} from {first}, though {least} was committed: read twice"
                if first and first not in {note.offset for note in asked[place]}:
                    yield f"{turn.member} read {place} from {first}, which nobody asked to commit"


def _commits(lives: list[Life], kind: str) -> dict[Place, list[Note]]:
    found: dict[Place, list[Note]] = defaultdict(list)
    for note in sorted(note for life in lives for note in life.notes if note.kind == kind):
        found[note.place].append(note)
    return found


def _set_back(lives: list[Life]) -> Iterator[str]:
    """Commits that were asked for after a later offset had been committed, and were answered."""
    answered = _commits(lives, "committed")
    for life in lives:
        asked: dict[Place, Note] = {}
        for note in life.notes:
            if note.kind == "ask":
                asked[note.place] = note
            elif note.kind == "committed":
                asked_s = asked[note.place].time_s
                before = max((each.offset for each in answered[note.place] if each.time_s <= asked_s), default=0)
                if note.offset < before:
                    yield f"{life.name} committed {note.offset} of {note.place} after {before}"


def _unread(lives: list[Life], sent: dict[Place, dict[int, int]]) -> Iterator[str]:
    """Records that nobody read, or read as something else."""
    read: dict[Place, dict[int, int]] = defaultdict(dict)
    for life in lives:
        for note in life.notes:
            if note.kind == "read":
                read[note.place][note.offset] = note.value
    for place, values in sent.items():
        unread = sorted(values.keys() - read[place].keys())
        if unread:
            yield f"{len(unread)} records of {place} were read by nobody, such as {unread[0]}"
        other = sorted(each for each in values.keys() & read[place].keys() if values[each] != read[place][each])
        if other:
            yield f"{len(other)} records of {place} were read as others, such as {other[0]}"
