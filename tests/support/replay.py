"""Sends the requests of a recording to a gateway, and compares what it answers."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark_commitlog.gateway.server import Gateway
from tests.support.gateway import WireClient
from tests.support.recorded_wire import (
    API_VERSIONS,
    CONTROLLER,
    COORDINATOR_NOT_AVAILABLE,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LEADER_NOT_AVAILABLE,
    LIST_PARTITION_REASSIGNMENTS,
    METADATA,
    NO_SUCH_SESSION,
    PRODUCE,
    Event,
    Head,
    alike,
    answer_body,
    differences,
    head_of,
    paired,
    request_fields,
)

WAIT_AT = 4  # of the time that a Fetch may wait, in the bodies of versions up to 14
CREATED_SOON = "a topic that a client asks for is there at once, not only at the next request"
COORDINATOR_SOON = "there is a coordinator at once, not only after the topic of offsets was made"
NO_SESSIONS = "no fetch sessions: the client sends a whole request instead"
MORE_VERSIONS = "the versions of Kafka 3.9.1"
NO_TEXT = "Kafka 3.9.1 sends no text where there is no error"
BETWEEN_PARTITIONS = "a fetch that waits may be answered between two partitions of a Produce"


class Difference(NamedTuple):
    """An answer that differs from the recorded one."""

    event: int  # index in the recording
    head: Head
    field: str  # where, such as ``topics.0.partitions.1.error_code``
    recorded: Any
    answered: Any


class Replay:
    """Sends the requests of a recording to a gateway, in their order, and compares what it answers.

    What else happened to the recorded broker, its answers tell: a topic that one of them describes is made first.
    """

    def __init__(self, gateway: Gateway, events: Sequence[Event], topic_configs: Mapping[str, str]) -> None:
        self._gateway, self._events, self._configs = gateway, events, topic_configs
        self._answers = dict(paired(events))
        self._sockets: dict[int, WireClient] = {}
        self._asked: dict[tuple[int, int], int] = {}  # index of each request that is not answered, by connection and id
        self._members: dict[bytes, bytes] = {}  # ours by the recorded ones
        self._produced = 0  # index of the last Produce
        self._new_topics: set[str] = set()  # those that a client's request made
        self.compared: Counter[tuple[int, int]] = Counter()  # answers by kind and version
        self.differences: list[Difference] = []
        self.exceptions: Counter[str] = Counter()  # answers by the reason why they may differ

    def run(self) -> None:
        """Plays the whole recording."""
        last = {event.connection: index for index, event in enumerate(self._events)}
        with WireClient(self._gateway) as self._admin:
            for index, event in enumerate(self._events):
                if event.kind == "open":
                    self._sockets[event.connection] = WireClient(self._gateway)
                elif event.kind == "request":
                    self._send(index, event, head_of(event.frame))
                elif event.kind == "response":
                    asked = self._asked.pop((event.connection, *struct.unpack_from(">i", event.frame, 4)), None)
                    if asked is not None:
                        self._receive(asked, index, head_of(self._events[asked].frame))
                if index == last[event.connection]:
                    self._sockets.pop(event.connection).socket.close()

    def _send(self, index: int, event: Event, head: Head) -> None:
        if head.key in CONTROLLER:
            return
        self._asked[event.connection, head.correlation_id] = index
        answer = self._answers.get(index)
        recorded = None if answer is None else answer_body(self._events[answer].frame, head)
        frame = bytearray(event.frame[4:])
        for theirs, ours in self._members.items():
            frame = frame.replace(theirs, ours)
        if head.key == METADATA and recorded is not None:
            self._make_topics(recorded)
        if head.key == FETCH and recorded is not None:  # waits for what is to come, also on a slow machine
            struct.pack_into(">i", frame, head.body_at - 4 + WAIT_AT, 20_000 if _tells_something(recorded) else 1)
        client = self._sockets[event.connection]
        client.send_frame(bytes(frame))
        if head.key == PRODUCE:
            self._produced = index
            if answer is None:  # the answer to the next request tells when it has ended
                client.send_frame(struct.pack(">hhih", API_VERSIONS, 0, 0, -1))
                client.receive()

    def _make_topics(self, recorded: Any) -> None:
        for topic in recorded["topics"]:
            name, wanted = topic["name"], len(topic["partitions"])
            found = self._gateway.context.topics.find(name)
            if topic["error_code"]:
                self._new_topics.add(name)
            elif found is None and name != "__consumer_offsets":
                configs = [{"name": key, "value": value} for key, value in self._configs.items()]
                made = {"name": name, "num_partitions": wanted, "replication_factor": 1, "configs": configs}
                answer = self._admin.ask(CREATE_TOPICS, 4, topics=[made], timeout=1000)
                assert not answer.topics[0].error_code, answer
            elif found is not None and len(found.partitions) < wanted:
                more = {"name": name, "count": wanted, "assignments": None}
                assert not self._admin.ask(CREATE_PARTITIONS, 0, topics=[more], timeout=1000).results[0].error_code

    def _receive(self, asked: int, index: int, head: Head) -> None:
        event = self._events[index]
        received = self._sockets[event.connection].receive()
        assert received[:4] == event.frame[4:8], "the answer to another request"
        self.compared[head.key, head.version] += 1
        if received[4:] == event.frame[8:]:
            return
        recorded, answered = answer_body(event.frame, head), answer_body(bytes(4) + received, head)
        if head.key == JOIN_GROUP:
            self._members[recorded["member_id"].encode()] = answered["member_id"].encode()
        found = [*differences(alike(recorded), alike(answered))]
        reason = self._reason(asked, head, recorded, answered) if found else None
        if reason is not None:
            self.exceptions[reason] += 1
        else:
            self.differences += [Difference(index, head, *each) for each in found]

    def _reason(self, asked: int, head: Head, recorded: Any, answered: Any) -> str | None:
        """Why an answer may differ; None: it may not."""
        reasons = {
            CREATED_SOON: head.key == METADATA and self._tells_of_new_topics(recorded, answered),
            COORDINATOR_SOON: head.key == FIND_COORDINATOR
            and (recorded["error_code"], answered["error_code"]) == (COORDINATOR_NOT_AVAILABLE, 0),
            NO_SESSIONS: head.key == FETCH and answered.get("error_code") == NO_SUCH_SESSION,
            MORE_VERSIONS: head.key == API_VERSIONS and _has_more(recorded, answered),
            NO_TEXT: head.key == LIST_PARTITION_REASSIGNMENTS
            and (recorded["error_message"], answered["error_message"]) == ("", None),
            BETWEEN_PARTITIONS: head.key == FETCH and self._is_between(asked, head, recorded, answered),
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _tells_of_new_topics(self, recorded: Any, answered: Any) -> bool:
        known = {topic["name"]: topic for topic in recorded["topics"] if not topic["error_code"]}
        others = {topic["name"]: topic for topic in answered["topics"]}
        soon = {topic["name"] for topic in recorded["topics"] if topic["error_code"] == LEADER_NOT_AVAILABLE}
        is_same = all(alike(topic) == alike(others[name]) for name, topic in known.items())
        return is_same and soon | (set(others) - set(known)) <= self._new_topics

    def _is_between(self, asked: int, head: Head, recorded: Any, answered: Any) -> bool:
        """Whether a fetch waited when several partitions were produced to, and saw some of that."""
        produced = self._events[self._produced]
        if self._produced < asked:
            return False
        topics = request_fields(produced.frame, head_of(produced.frame))["topic_data"]
        several = sum(len(topic["partition_data"]) for topic in topics) > 1
        return several and _tells_something(answered) and _codes(recorded) == _codes(answered)


def _tells_something(answer: Any) -> bool:
    return any(part["records"] or part["error_code"] for topic in answer["responses"] for part in topic["partitions"])


def _codes(answer: Any) -> list[int]:
    return [part["error_code"] for topic in alike(answer)["responses"] for part in topic["partitions"]]


def _has_more(recorded: Any, answered: Any) -> bool:
    """Whether every version of a kind that both brokers serve is among the answered ones."""
    ours = {each["api_key"]: each for each in answered["api_keys"]}
    both = [(each, ours[each["api_key"]]) for each in recorded["api_keys"] if each["api_key"] in ours]
    return all(
        mine["min_version"] <= each["min_version"] and each["max_version"] <= mine["max_version"] for each, mine in both
    )
