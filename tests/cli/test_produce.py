"""``commitlog produce``: lines become records, also according to Kafka's dump tool; and wrong use."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2  # type: ignore[import-untyped]

from pyspark_commitlog.cli.produce import _Reading
from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog
from tests.support.kafka.broker import dump_log


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Topics orders, with three partitions, and small, which refuses records above 200 bytes."""
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("orders", partitions=3)
        manager.create_topic("small", partitions=1, configs={"max.message.bytes": "200"})
    return str(tmp_path / "log")


def produced(directory: str, lines: bytes, *arguments: object, topic: str = "orders") -> str:
    done = commitlog("produce", "--log-dir", directory, "-t", topic, *arguments, stdin=lines)
    assert (done.code, done.stderr) == (0, "")
    return done.stdout


def records(directory: str, text: str, topic: str = "orders") -> list[str]:
    done = commitlog("cat", "--log-dir", directory, "-t", topic, "-e", "-q", "-Z", "-f", text + "\\n")
    assert done.code == 0
    return done.stdout.splitlines()


def test_each_line_is_a_record_even_an_unterminated_last_one(directory: str) -> None:
    assert produced(directory, b"one\n\ntwo words\nthree", "-p", 2) == ""
    assert records(directory, "%p %o %k %s") == ["2 0 NULL one", "2 1 NULL ", "2 2 NULL two words", "2 3 NULL three"]
    produced(directory, b"", "-p", 2)
    assert len(records(directory, "%o")) == 4


def test_keys_choose_the_partition_as_javas_producer_does(directory: str) -> None:
    produced(directory, b"".join(b"key-%d:value %d\n" % (n, n) for n in range(20)), "-K", ":")
    found = dict(line.split(" ", 1) for line in records(directory, "%k %p %s"))
    chosen = [(murmur2(b"key-%d" % n) & 0x7FFFFFFF) % 3 for n in range(20)]
    assert found == {f"key-{n}": f"{partition} value {n}" for n, partition in enumerate(chosen)}


def test_lines_without_the_delimiter_have_no_key_and_empty_is_null_on_request(directory: str) -> None:
    produced(directory, b"k\tv\nplain\n\tno key\nk\t\n", "-K", "\\t", "-p", 0)
    produced(directory, b"k\tv\nplain\n\tno key\nk\t\n", "-K", "\\t", "-p", 1, "-Z")
    assert records(directory, "%p:%K:%k:%S:%s")[:4] == ["0:1:k:1:v", "0:-1:NULL:5:plain", "0:0::6:no key", "0:1:k:0:"]
    assert records(directory, "%p:%k:%s")[4:] == ["1:k:v", "1:NULL:plain", "1:NULL:no key", "1:k:NULL"]


def test_delimiters_and_headers_are_as_given(directory: str) -> None:
    produced(directory, b"a;;b;c;;", "-D", ";;", "-H", "source=test", "-H", "flag", "-H", "raw=\udcff", "-p", 0)
    headers = r"source=test,flag=NULL,raw=\xff"
    assert records(directory, "%s %h") == [f"a {headers}", f"b;c {headers}"]


def test_records_without_a_key_change_partition_with_each_append(directory: str) -> None:
    for _ in range(3):
        produced(directory, b"x\ny\n")
    assert len(records(directory, "%p")) == 6


def test_json_has_the_partition_and_offsets_of_appended_records(directory: str) -> None:
    printed = [produced(directory, b"a\nb\n", "-p", 1, "--json") for _ in range(2)]
    assert [json.loads(each) for each in printed] == [
        {"topic": "orders", "partition": 1, "first_offset": 0, "last_offset": 1},
        {"topic": "orders", "partition": 1, "first_offset": 2, "last_offset": 3},
    ]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_kafka_reads_what_was_produced_and_sees_an_idempotent_producer(codec: str, directory: str) -> None:
    produced(directory, b"k:one\nk:two\nthree\n", "-K", ":", "-H", "h=1", "-p", 0, "-z", codec)
    [path] = Path(directory, "orders-0").glob("*.log")
    said = dump_log([path], "--print-data-log").stdout
    assert f"compresscodec: {codec} " in said.lower() + " "
    assert f"baseSequence: 0 lastSequence: 2 producerId: {2**40} producerEpoch: 0" in said
    assert "key: k payload: one" in said
    assert "headerKeys: [h]" in said
    assert "isvalid: true" in said


def test_a_refused_line_is_reported_with_the_number_appended_before(directory: str) -> None:
    done = commitlog("produce", "--log-dir", directory, "-t", "small", stdin=b"fine\n" + b"x" * 300 + b"\n")
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "record 1 alone makes a batch of" in done.stderr
    assert "appended before this: 0 records" in done.stderr
    assert records(directory, "%s", topic="small") == []


def test_input_read_in_pieces_is_split_only_at_delimiters() -> None:
    class Pieces(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(5)

    reading = _Reading(b"::", b"=", empty_is_none=False)
    rows = [row for chunk in reading.chunks(Pieces(b"a=1::bb=22::long line=3::e::f")) for row in chunk]
    assert rows == [(b"a", b"1"), (b"bb", b"22"), (b"long line", b"3"), (None, b"e"), (None, b"f")]


# --- wrong use


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param([], 2, "--topic", id="no topic"),
        pytest.param(["-t", "order"], 1, "did you mean 'orders'?", id="no such topic"),
        pytest.param(["-t", "payments"], 1, "commitlog topics --create --topic payments", id="how to create it"),
        pytest.param(["-t", "orders", "-p", "3"], 1, "has partitions [0, 1, 2], but not 3", id="no such partition"),
        pytest.param(["-t", "orders", "-D", ""], 2, "cannot be empty", id="nothing ends a record"),
        pytest.param(["-t", "orders", "-z", "rar"], 2, "zstd", id="no such codec"),
    ],
)
def test_wrong_use_says_what_is_right_and_writes_nothing(
    arguments: list[str], code: int, said: str, directory: str
) -> None:
    done = commitlog("produce", "--log-dir", directory, *arguments, stdin=b"x\n")
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr.replace("\n", " ")
    assert records(directory, "%o") == []


def test_help_names_kcats_flags() -> None:
    done = commitlog("produce", "--help")
    assert done.code == 0
    for flag in ("-t", "-p", "-K", "-D", "-H", "-Z", "-z"):
        assert flag in done.stdout


# --- a topic that a broker has in several log.dirs


def test_keys_choose_no_partition_if_some_partitions_are_missing(directory: str) -> None:
    with LogManager.open(directory) as manager:
        for number in (0, 2):
            manager.open_log("orders", number)
    (Path(directory) / "topics.json").unlink()
    shutil.rmtree(f"{directory}/orders-1")
    done = commitlog("produce", "--log-dir", directory, "-t", "orders", "-K", ":", stdin=b"k:v\n")
    assert (done.code, "orders' has only partitions [0, 2]" in done.stderr) == (1, True)
    assert records(directory, "%p") == []
    produced(directory, b"k:v\n", "-K", ":", "-p", 2)
    assert records(directory, "%p:%k=%s") == ["2:k=v"]


def test_keys_keep_their_partition_when_topics_json_is_lost(directory: str) -> None:
    lines = b"".join(b"k%d:v\n" % n for n in range(20))
    produced(directory, b"k:v\n", "-K", ":")
    (Path(directory) / "topics.json").unlink()
    produced(directory, lines, "-K", ":")
    expected = {f"{murmur2(b'k%d' % n) % 2**31 % 3}:k{n}" for n in range(20)}
    assert expected <= set(records(directory, "%p:%k"))
