"""``commitlog find``: what it prints, its exit codes, and its notices."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest

from pyspark_commitlog.storage import LogManager, Records
from tests.cli.in_process import commitlog
from tests.support.clock import ManualClock
from tests.support.logs.building import NOW_MS


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Topic orders, of two partitions: ann's records are in 0, ida's in 1."""
    path = str(tmp_path_factory.mktemp("find") / "log")
    with LogManager.open(path, create=True, clock=ManualClock(NOW_MS)) as manager:
        manager.create_topic("orders", partitions=2)
        for number in range(3):
            headers = [(b"trace", b"%d" % number)]
            for partition, key in enumerate((b"ann", b"ida")):
                time_ms = NOW_MS + number * 1000 + partition
                records = Records.to_append([key, None], [b"tea\n%d" % number, b"\xff"], time_ms, headers)
                manager.open_log("orders", partition).append_records(records)
    return path


def test_a_key_is_found_and_the_partition_that_is_searched_is_named(directory: str) -> None:
    done = commitlog("find", "--log-dir", directory, "--topic", "orders", "--key", "ann", "--max", "1")
    assert done.code == 0
    assert done.stdout == "orders-0\t0\t2023-11-14 22:13:20.000 UTC\tann\ttea\\n0\n"
    assert "searching partition 0 of 2" in done.stderr
    assert "stopped after 1 record, as --max asks" in done.stderr


def test_json_has_what_cat_prints(directory: str) -> None:
    found = commitlog("find", "--log-dir", directory, "-t", "orders", "--value-contains", "tea", "--json")
    lines = commitlog("cat", "--log-dir", directory, "-t", "orders", "-e", "-q", "-J").stdout.splitlines()
    assert (found.code, found.stderr) == (0, "")
    assert found.stdout.splitlines() == [line for line in lines if "tea" in line]


def test_newest_first_goes_through_all_partitions_by_time(directory: str) -> None:
    find = ("find", "--log-dir", directory, "-t", "orders", "--key-prefix", "", "--newest-first", "--max", 3)
    done = commitlog(*find, "-f", "%p %o\n")
    assert done.stdout == "1 4\n0 4\n1 2\n"


def test_conditions_and_bounds_all_count(directory: str) -> None:
    find = ("find", "--log-dir", directory, "-t", "orders", "--key", "ida", "-f", "%o\n")
    assert commitlog(*find, "--header", "trace=1").stdout == "2\n"
    assert commitlog(*find, "--header", "trace=1", "--header", "trace=2").stdout == ""
    assert commitlog(*find, "--start", "1", "--end", f"@{NOW_MS + 1500}").stdout == "2\n"
    assert commitlog(*find, "--start", "2023-11-14T22:13:22").stdout == "4\n"


def test_bytes_that_are_no_text_can_be_searched_for(directory: str) -> None:
    find = (
        "find",
        "--log-dir",
        directory,
        "-t",
        "orders",
        "--value-contains",
        b"\xff".decode(errors="surrogateescape"),
    )
    assert commitlog(*find, "-p", "0", "-f", "%o %k\n").stdout == "1 NULL\n3 NULL\n5 NULL\n"


def test_damage_gives_3_and_is_named(directory: str, tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        for number in range(2):
            manager.open_log("orders", 0).append_records(Records.to_append([b"ann"], [b"%d" % number], NOW_MS))
    path = tmp_path / "log" / "orders-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2 - 2] ^= 1
    path.write_bytes(data)
    done = commitlog("find", "--log-dir", tmp_path / "log", "-t", "orders", "--key", "ann", "--json")
    assert done.code == 3
    assert [json.loads(line)["payload"] for line in done.stdout.splitlines()] == ["1"]
    assert "not searched: orders-0, offset 0: " in done.stderr
    assert "does not match its checksum" in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "give at least one of --key, --key-prefix, --value-contains, --header, --where"),
        (("--header", "trace"), "is not of the form NAME=VALUE"),
        (("--where", "true", "-f", "%o"), "--where and --select print JSON: leave --format out"),
        (("--where", "nonsense = 1"), "Referenced column"),
        (("--where", "offset < 3"), 'write the column as "offset", in double quotes'),
        (("--where", "true", "--select", "count(*)"), "--select has an aggregate"),
        (("--where", "true", "--select", "DISTINCT topic"), "sorts, groups, or uses a window or DISTINCT"),
        (("--where", "true) GROUP BY (topic", "--select", "topic"), "sorts, groups, or uses a window or DISTINCT"),
        (
            ("--where", "true", "--select", "(SELECT content FROM read_text('/etc/passwd'))"),
            "disabled by configuration",
        ),
        (("--key", "a", "--start", "yesterday"), "--start 'yesterday' is neither ISO 8601"),
        (("--key", "a", "--start", "5", "--end", "4"), "--start 5 is after --end 4"),
        (("--key", "a", "--start", "5", "--start", "6"), "--start may be given once as an offset and once as a time"),
    ],
)
def test_wrong_usage_is_explained(directory: str, flags: tuple[str, ...], message: str) -> None:
    done = commitlog("find", "--log-dir", directory, "-t", "orders", *flags)
    assert done.code == 2
    assert message in " ".join(done.stderr.split())


def test_sql_filters_and_shapes_what_is_found(tmp_path: Path) -> None:
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        values = [b'{"dest": {"city": "Rome"}, "n": %d}' % number for number in range(3)]
        keys: list[bytes | None] = [b"ann", None, b"\xff", b"ida"]
        records = Records.to_append(keys, [*values, b"no JSON \xff"], NOW_MS, [(b"h", b"1")])
        manager.open_log("orders", 0).append_records(records)
    find = ("find", "--log-dir", tmp_path / "log", "-t", "orders")
    done = commitlog(*find, "--where", "json->>'$.dest.city' = 'Rome' AND (json->>'n')::int > 0")
    assert (done.code, done.stderr) == (0, "")
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["key"], first["offset"], first["timestamp"]) == (None, 1, "2023-11-14T22:13:20.000+00:00")
    assert (second["key_base64"], second["headers"]) == ("/w==", [{"key": "h", "value": "1"}])
    shaped = commitlog(*find, "--key", "ann", "--select", "key_text AS name, json->'$.dest' AS dest")
    assert shaped.stdout == '{"name": "ann", "dest": "{\\"city\\":\\"Rome\\"}"}\n'
    assert commitlog(*find, "--where", "value_text IS NULL", "--select", '"offset"').stdout == '{"offset": 3}\n'
    assert commitlog(*find, "--where", "true", "--max", "2", "--select", '"offset"').stdout.count("\n") == 2


@pytest.fixture
def of_avro(tmp_path: Path) -> Path:
    """Topic orders, with values of two schemas of Avro, one of JSON and a tombstone."""
    one = {"type": "record", "name": "Order", "fields": [{"name": "dest", "type": "string"}]}
    two = {**one, "fields": [{"name": "dest", "type": "string"}, {"name": "n", "type": "int"}]}
    for schema_id, schema in ((7, one), (8, two)):
        (tmp_path / f"{schema_id}.avsc").write_text(json.dumps(schema))
    values = [
        avro_value(7, one, {"dest": "Rome"}),
        avro_value(8, two, {"dest": "Rome", "n": 2}),
        avro_value(8, two, {"dest": "Oslo", "n": 3}),
        b'{"dest": "Rome", "n": 4}',
        None,
    ]
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=1)
        keys: list[bytes | None] = [b"k%d" % number for number in range(len(values))]
        manager.open_log("orders", 0).append_records(Records.to_append(keys, values, NOW_MS))
    return tmp_path


def avro_value(schema_id: int, schema: dict[str, object], content: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), content)
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


def test_sql_reads_values_of_avro_by_the_schema_of_each(of_avro: Path) -> None:
    find = ("find", "--log-dir", of_avro / "log", "-t", "orders", "--where", "json->>'$.dest' = 'Rome'")
    shaped = (*find, "--select", "\"offset\", (json->>'n')::int AS n")
    done = commitlog(*shaped, "--schema-folder", of_avro)
    assert (done.code, done.stderr) == (0, "")
    rows = [(row["offset"], row["n"]) for row in map(json.loads, done.stdout.splitlines())]
    assert rows == [(0, None), (1, 2), (3, 4)]
    assert commitlog(*shaped).stdout == '{"offset": 3, "n": 4}\n'


def test_values_of_avro_that_do_not_decode_give_3_and_are_named(of_avro: Path) -> None:
    (of_avro / "8.avsc").unlink()
    find = ("find", "--log-dir", of_avro / "log", "-t", "orders", "--schema-folder", of_avro, "--select", '"offset"')
    done = commitlog(*find, "--where", "json->>'$.dest' = 'Rome'")
    assert done.code == 3
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [0, 3]
    assert "not searched: orders-0: the value at offset 1: its schema, id 8, is unknown to folder" in done.stderr
    assert "; and 1 more" in done.stderr
    assert commitlog(*find, "--where", "key_text = 'k1'").code == 0  # needs no value


def test_schemas_without_sql_are_wrong_usage(of_avro: Path) -> None:
    done = commitlog("find", "--log-dir", of_avro / "log", "-t", "orders", "--key", "a", "--schema-folder", of_avro)
    assert done.code == 2
    assert "--registry and --schema-folder are for --where and --select" in " ".join(done.stderr.split())
