"""Requests that real clients sent to brokers of Kafka 0.8 to 2.8: ours are answered as theirs were, field by field.

Free are addresses, times, ids of members, topics and sessions, epochs, throttle times, the bytes of compression, and
the order in which a broker takes partitions and topics from a hash table. ``tests/support/replay.py`` has the
exceptions.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import replay
from tests.support.gateway import serving
from tests.support.recorded_wire import recording
from tests.support.replay import Replay


class Recording(NamedTuple):
    """One recording."""

    answers: int  # to clients, not to the controller
    exceptions: dict[str, int]  # answers that must differ, by the reason
    format_version: str | None = None  # of the topics
    node: int = 0


OF_2 = {replay.NO_SESSIONS: 11, replay.MORE_VERSIONS: 19, replay.NO_TEXT: 1}
RECORDINGS = {
    "0.8.2.2": Recording(1303, {replay.CREATED_SOON: 2, replay.COORDINATOR_SOON: 1}, "0.8.2"),
    "0.8.2.2-mirror-target": Recording(3, {replay.CREATED_SOON: 2}, "0.8.2", node=5),
    "0.10.2.2": Recording(
        1509, {replay.CREATED_SOON: 2, replay.COORDINATOR_SOON: 1, replay.MORE_VERSIONS: 11}, "0.10.2"
    ),
    "0.10.2.2-mirror-target": Recording(8, {replay.CREATED_SOON: 3, replay.MORE_VERSIONS: 2}, "0.10.2", node=5),
    "2.7.2": Recording(75, {replay.COORDINATOR_SOON: 2, **OF_2}),
    "2.8.2": Recording(73, {replay.COORDINATOR_SOON: 1, **OF_2}),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_recorded_request_is_answered_as_its_broker_answered(tmp_path: Path, name: str) -> None:
    expected = RECORDINGS[name]
    configs = {} if expected.format_version is None else {"message.format.version": expected.format_version}
    settings = {"node_id": expected.node, "num_partitions": 2, "offsets_topic_num_partitions": 4}
    with serving(tmp_path / "log", inter_broker_protocol_version="2.8", **settings) as gateway:
        played = Replay(gateway, recording(name), configs)
        played.run()
    assert played.differences == []
    assert played.compared.total() == expected.answers
    by_chance = {replay.BETWEEN_PARTITIONS: played.exceptions.pop(replay.BETWEEN_PARTITIONS, 0)}
    assert played.exceptions == expected.exceptions
    assert by_chance[replay.BETWEEN_PARTITIONS] <= 2
