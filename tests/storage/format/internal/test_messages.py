"""Kafka's schemas as tables: kinds, versions, and bytes that are no message. Whole records are in test_dump.py."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pyspark_commitlog.storage.dump.jackson import json_text
from pyspark_commitlog.storage.errors import InvalidRecordError
from pyspark_commitlog.storage.format.internal import messages
from pyspark_commitlog.storage.format.internal.message_schema import Struct
from pyspark_commitlog.storage.format.internal.messages import Messages
from tests.support.kafka import kafka_jvm
from tests.support.logs.plain_batches import PlainRecord, records

SCHEMAS = files(messages.__package__).joinpath("message_schemas")
FILES = {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in SCHEMAS.iterdir()}
ALL = [(name, each) for name, found in FILES.items() for each in found]


@pytest.mark.parametrize(("file", "message"), ALL, ids=[f"{name} {each['name']}" for name, each in ALL])
def test_a_message_has_a_table_in_each_of_its_versions(file: str, message: dict[str, Any]) -> None:
    schema = messages._schemas(file)[message["type"], message["apiKey"]]
    assert schema.name == message["name"]
    for version in schema.versions:
        table = messages._struct(file, message["type"], message["apiKey"], version)
        assert isinstance(table, Struct)
        names = [field.name for field in table.fields]
        assert len(names) == len(set(names))


JARS = {  # the jar of 4.3.1 with the messages of a file
    "groups": "kafka-group-coordinator",
    "transactions": "kafka-transaction-coordinator",
    "share_state": "kafka-share-coordinator",
    "metadata": "kafka-metadata",
    "remote_log": "kafka-storage",
    "control": "kafka-clients",
}
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def as_compared(schema: Any) -> Any:
    """A schema without comments, in one spelling of names, defaults, and of what follows from the rest."""
    if isinstance(schema, list):
        return [as_compared(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: as_compared(each) for name, each in schema.items() if name not in ("about", "entityType", "mapKey")}
    if "name" in kept:
        kept["name"] = kept["name"][0].lower() + kept["name"][1:]
    return {
        name: str(each).lower() if name == "default" else each for name, each in kept.items() if name != "ignorable"
    }


@pytest.mark.only_all
@pytest.mark.parametrize("file", FILES)
def test_the_schemas_are_those_in_the_jars_of_kafka_4(file: str) -> None:
    [jar] = [path for path in kafka_jvm.jars(kafka_jvm.KAFKA_4) if path.name == f"{JARS[file]}-4.3.1.jar"]
    with zipfile.ZipFile(jar) as packed:
        texts = [
            packed.read(name)
            for name in packed.namelist()
            if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name)
        ]
    by_name = {each["name"]: each for each in (json.loads(COMMENT.sub("", text.decode())) for text in texts)}
    ours = {each["name"]: each for each in FILES[file] if each["name"] in by_name}
    assert ours
    for name, each in ours.items():
        its = by_name[name] if file != "control" else {**by_name[name], "type": "control", "apiKey": each["apiKey"]}
        assert as_compared(each) == as_compared(its), name
    if file != "control":
        kinds = {"coordinator-key", "coordinator-value", "metadata"}
        theirs = {(each["type"], each["apiKey"]) for each in by_name.values() if each["type"] in kinds}
        assert theirs <= {(each["type"], each["apiKey"]) for each in FILES[file]}


@pytest.mark.parametrize("last", range(24))
def test_every_kind_of_group_record_up_to_kafka_4_is_known_by_key_and_value(last: int) -> None:
    kinds = {each["apiKey"] for each in FILES["groups"]}
    assert kinds == set(range(24)) - {18}  # 18 was given up before a release
    assert sum(each["apiKey"] == last for each in FILES["groups"]) == (0 if last == 18 else 2)


@pytest.mark.parametrize(
    ("kind", "value", "fields"),
    [
        (
            2,
            b"\0\1" + b"\0\0\0\3" + b"\2" + b"\0\0\0\3" + bytes(15) + b"\1" + b"\0" + b"\1" + b"\0",
            {
                "version": 1,
                "leaderId": 3,
                "voters": ({"voterId": 3, "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ"},),
                "grantingVoters": (),
            },
        ),
        (3, b"\0\0" + b"\0" * 7 + b"\5" + b"\0", {"version": 0, "lastContainedLogTimestamp": 5}),
        (4, b"\0\0\0", {"version": 0}),
        (5, b"\0\0\0\1\0", {"version": 0, "kRaftVersion": 1}),
    ],
)
def test_a_control_record_of_kraft_is_decoded_in_the_version_it_begins_with(
    kind: int, value: bytes, fields: dict[str, Any]
) -> None:
    assert Messages("control").control(kind, value).fields == fields


MEMBER = b"\0\0" + b"\0" + b"\0" + b"\2c" + b"\2h" + b"\1" + b"\0" + b"\0\0\0\1" + b"\0"  # of kind 5, without tags


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        pytest.param(b"\0", {}, id="no tag: not shown"),
        pytest.param(b"\1\0\1\0", {"classicMemberMetadata": None}, id="null"),
        pytest.param(
            b"\1\0\x0d\1\0\0\0\7\2\2p\3mm\0\0",
            {
                "classicMemberMetadata": {
                    "sessionTimeoutMs": 7,
                    "supportedProtocols": [{"name": "p", "metadata": "bW0="}],
                }
            },
            id="there",
        ),
        pytest.param(b"\1\x63\1x", {}, id="a tag of a later release is passed over"),
    ],
)
def test_a_tagged_struct_may_be_missing_null_or_there(tags: bytes, shown: dict[str, Any]) -> None:
    found = json.loads(json_text(Messages("groups").value(5, MEMBER + tags).fields))
    assert {name: found[name] for name in ("clientId", "clientHost", "rebalanceTimeoutMs")} == {
        "clientId": "c",
        "clientHost": "h",
        "rebalanceTimeoutMs": 1,
    }
    assert {name: each for name, each in found.items() if name == "classicMemberMetadata"} == shown


def test_a_tagged_field_at_its_default_is_not_shown() -> None:
    value = b"\0\0" + b"\0\0\0\3" + b"\1\0\x08"  # kind 6: an epoch, and the time of the assignment
    assert Messages("groups").value(6, value + bytes(8) + b"").fields == {"assignmentEpoch": 3}
    shown = Messages("groups").value(6, value + b"\0" * 7 + b"\1").fields
    assert shown == {"assignmentEpoch": 3, "assignmentTimestamp": 1}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\0\1\0\0\0\0", "ConsumerGroupMetadataValue has version 1, but the newest known is 0"),
        (b"\0\0\0\0", "states 4 bytes, but only 2 remain"),
        (b"\0", "states 2 bytes, but only 1 remain"),
    ],
)
def test_bytes_that_are_no_message_are_refused_with_the_position(data: bytes, told: str) -> None:
    with pytest.raises(InvalidRecordError, match=told):
        Messages("groups").value(3, data)


def test_a_kind_of_a_later_release_is_not_known() -> None:
    assert Messages("groups").key(b"\0\x63\0\1g") is None
    with pytest.raises(InvalidRecordError, match="unknown record type 99 in a frame of version 1"):
        Messages("metadata").framed(b"\1\x63\0")
    with pytest.raises(InvalidRecordError, match="frame of version 2"):
        Messages("metadata").framed(b"\2\2\0")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1024.0, "1024.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (0.001, "0.001"),
        (0.00025, "2.5E-4"),
        (-2e10, "-2.0E10"),
        (0.0, "0.0"),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        ('a\x07\u00e9"\\', '"a\\u0007\u00e9\\"\\\\"'),
        ("\x1f", '"\\u001F"'),
        ((1, None, True, {"a": b"\xff"}), '[1,null,true,{"a":"/w=="}]'),
    ],
)
def test_json_is_that_of_jackson(value: Any, text: str) -> None:
    assert json_text(value) == text


# Damage


DUMPS = Path(__file__).parents[3] / "golden" / "dumps"
BY_ARCHIVE = {
    "kafka-4-offsets-0": "groups",
    "kafka-4-offsets-1": "groups",
    "kafka-4-share-group-state": "share_state",
    "4.0-cluster-metadata": "metadata",
    "remote-log-metadata": "remote_log",
    "transaction-state": "transactions",
}


def records_of(archive: str) -> list[PlainRecord]:
    with tarfile.open(DUMPS / f"{archive}.tar.xz") as packed:
        logs = [each for each in packed.getnames() if each.startswith("__") and each.endswith(".log")]
        members = [packed.extractfile(name) for name in logs]
        found = [each for member in members if member for each in records(member.read()) if each.value]
    assert found
    return found


def decoded(schemas: Messages, key: bytes | None, value: bytes) -> object:
    if key is None:
        return schemas.framed(value)
    found = schemas.key(key)
    return found and schemas.value(found[0], value)


@pytest.mark.parametrize("archive", BY_ARCHIVE)
def test_damaged_bytes_are_a_message_or_refused_and_never_another_error(archive: str) -> None:
    chance, schemas = Random(archive), Messages(BY_ARCHIVE[archive])
    for record in records_of(archive):
        assert record.value is not None
        if record.key is not None and len(record.key) == 4:
            continue  # a control record
        decoded(schemas, record.key, record.value)
        for _ in range(20):
            damaged = bytearray(record.value)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            torn = bytes(damaged[: chance.randrange(len(damaged) + 1)])
            for data in (bytes(damaged), torn):
                with suppress(InvalidRecordError):
                    decoded(schemas, record.key, data)
                with suppress(InvalidRecordError):
                    schemas.key(data)
