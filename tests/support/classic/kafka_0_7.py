"""What a real Kafka 0.7.2 recorded (``tests/golden/kafka-0.7``), and the room's objects over it."""

from __future__ import annotations

import base64
import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

from pyspark_commitlog.classic.log_0_7.entries import messages_in
from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.storage.errors import CorruptionError

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-0.7"
OWN_SETTINGS = set(PositionLogSettings.names())
RECORDED_AT_MS = 1_795_720_680_000  # some of the times that were asked for are later


def recorded(name: str) -> Any:
    """The content of a JSON file."""
    data = (GOLDEN / name).read_bytes()
    return json.loads(lzma.decompress(data) if name.endswith(".xz") else data)


def unpacked(scenario: str, target: Path) -> Path:
    """The log directories of a scenario, below ``target``, with the times of their files."""
    with tarfile.open(GOLDEN / scenario / "logs.tar.xz") as archive:
        archive.extractall(target, filter="data")
    return target


def write_segments(directory: Path, *files: bytes, start: int = 0) -> None:
    """Writes files of a partition, which is created if missing, one after the other from position ``start`` on."""
    directory.mkdir(parents=True, exist_ok=True)
    for content in files:
        (directory / f"{start:020}.kafka").write_bytes(content)
        start += len(content)


def settings_of(scenario: str, **other: object) -> PositionLogSettings:
    """The settings of the recorded broker that its logs have."""
    given = recorded(f"{scenario}/settings.json")["server.properties"]
    return PositionLogSettings.from_mapping(
        {name: value for name, value in given.items() if name in OWN_SETTINGS} | other
    )


def consumed(data: bytes | memoryview, position: int) -> dict[str, object]:
    """What a consumer of 0.7 makes of a fetched message set, in the form that was recorded."""
    messages: list[list[object]] = []
    found: dict[str, object] = {"messages": messages}
    try:
        for one in messages_in(data, position):
            messages.append([one.next_position, one.magic, base64.b64encode(one.payload).decode()])
    except CorruptionError:
        found["fails"] = True
    return found


def consumed_as_recorded(recorded_set: dict[str, Any]) -> dict[str, object]:
    """The same of a recorded answer."""
    found: dict[str, object] = {"messages": recorded_set["messages"]}
    return found | ({"fails": True} if "iteratorError" in recorded_set else {})


def sizes(directory: Path) -> dict[str, int]:
    """Name and size of each segment of a partition."""
    return {path.name: path.stat().st_size for path in sorted(directory.glob("*.kafka"))}


def produced_sets(frame: bytes) -> list[tuple[str, int, bytes]]:
    """Topic, partition and message set of each part of a produce or multi-produce request; [] for others."""
    key, at = int.from_bytes(frame[:2], "big", signed=True), 2
    if key not in (0, 3):
        return []
    count = 1
    if key == 3:
        count, at = int.from_bytes(frame[2:4], "big"), 4
    found = []
    for _ in range(count):
        length = int.from_bytes(frame[at : at + 2], "big")
        topic = frame[at + 2 : at + 2 + length].decode()
        at += 2 + length
        partition, size = (int.from_bytes(frame[at + i : at + i + 4], "big", signed=True) for i in (0, 4))
        found.append((topic, partition, frame[at + 8 : at + 8 + size]))
        at += 8 + size
    return found


def requests(scenario: str) -> list[bytes]:
    """The frames of all requests of a scenario, without their lengths, in the order in which they were sent."""
    wire = recorded(f"{scenario}/wire.json.xz")
    return [base64.b64decode(one["frame"])[4:] for one in wire if one["kind"] == "request" and one["label"] != "raw"]
