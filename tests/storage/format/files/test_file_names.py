"""Names of files and directories."""

from __future__ import annotations

import pytest

from pyspark_commitlog.storage.errors import InvalidTopicError
from pyspark_commitlog.storage.format.files import file_names
from tests.support.logs.sidecars import SIDECARS


def test_a_segment_file_is_named_by_its_offset_in_twenty_digits() -> None:
    assert file_names.segment_file(5, file_names.LOG) == "00000000000000000005.log"
    assert file_names.segment_file(2**63 - 1, file_names.INDEX + file_names.SWAP) == "09223372036854775807.index.swap"
    for second in ("", file_names.DELETED, file_names.CLEANED, file_names.SWAP, file_names.TMP):
        for suffix in (
            file_names.LOG,
            file_names.INDEX,
            file_names.TIME_INDEX,
            file_names.TXN_INDEX,
            file_names.SNAPSHOT,
        ):
            assert file_names.base_offset_of(file_names.segment_file(42, suffix + second)) == 42


@pytest.mark.parametrize(
    "name",
    ["leader-epoch-checkpoint", "partition.metadata", "5.log", "0000000000000000000x.log", "00000000000000000005", ""],
)
def test_other_names_have_no_base_offset(name: str) -> None:
    assert file_names.base_offset_of(name) is None


def test_every_file_of_a_partition_that_kafka_wrote_is_recognised() -> None:
    others = {f.name for f in (SIDECARS / "txn-0").iterdir() if file_names.base_offset_of(f.name) is None}
    assert others == {file_names.LEADER_EPOCH_CHECKPOINT, file_names.PARTITION_METADATA_FILE, "dump.txt"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("foo-0", ("foo", 0, "plain"), id="plain"),
        pytest.param("foo-bar.baz-12", ("foo-bar.baz", 12, "plain"), id="the last dash counts"),
        pytest.param(f"foo.bar-3.{'0a' * 16}-delete", ("foo.bar", 3, "delete"), id="deleted, with periods"),
        pytest.param(f"foo-3.{'0a' * 16}-future", ("foo", 3, "future"), id="future"),
        pytest.param(f"foo-3.{'0a' * 16}-stray", ("foo", 3, "stray"), id="stray"),
        pytest.param("foo", None, id="no partition"),
        pytest.param("-1", None, id="no topic"),
        pytest.param("foo-", None, id="empty partition"),
        pytest.param("foo-1a", None, id="partition not a number"),
        pytest.param("foo-२", None, id="digit of another script"),
        pytest.param("foo-2147483648", None, id="partition above 2^31 - 1"),
        pytest.param("a b-1", None, id="topic with a blank"),
        pytest.param("foo-3.0a-delete", None, id="suffix without 32 digits"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_partition_directory_is_recognized_by_its_name(name: str, expected: tuple[str, int, str] | None) -> None:
    assert file_names.parse_partition_directory(name) == expected


def test_a_name_marked_for_deletion_is_shortened_for_file_systems_and_still_parses() -> None:
    topic, unique = "t" * 249, "f0" * 16
    name = file_names.marked_directory(topic, 1234567, "delete", unique)
    assert len(name) == 255
    parsed = file_names.parse_partition_directory(name)
    assert parsed is not None
    assert (parsed.partition, parsed.kind) == (1234567, "delete")
    assert file_names.parse_partition_directory(file_names.partition_directory(topic, 7)) == (topic, 7, "plain")


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "..."])
def test_topic_names_kafka_allows_pass(name: str) -> None:
    file_names.check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a b", "ä", "a\n"])
def test_topic_names_kafka_refuses_are_named_in_the_error(name: str) -> None:
    with pytest.raises(InvalidTopicError, match=r"topic name|cannot be named"):
        file_names.check_topic_name(name)


def test_names_that_differ_only_by_a_period_and_an_underscore_collide() -> None:
    assert file_names.collides("a.b", "a_b")
    assert not file_names.collides("a.b", "ab")


def test_paths_are_joined_with_one_slash() -> None:
    assert file_names.join("/data/", "t-0", "x.log") == "/data/t-0/x.log"
    assert file_names.join("/", "x") == "/x"
    assert file_names.join("/data") == "/data"


def test_files_by_suffix_are_those_with_that_suffix_and_no_other() -> None:
    listing = [file_names.segment_file(base, file_names.LOG) for base in (0, 7)]
    listing += [
        file_names.segment_file(7, file_names.LOG + file_names.SWAP),
        "7.log",
        "x" * 20 + ".log",
        "leader-epoch-checkpoint",
    ]
    files = file_names.segment_files(listing)
    assert files == listing[:3]
    assert file_names.by_suffix(files) == {".log": {0, 7}, ".log.swap": {7}}
    assert file_names.by_suffix(files)[file_names.INDEX] == set()


def test_the_name_of_an_unfinished_copy_fits_and_tells_topics_that_begin_alike_apart() -> None:
    topics = ["t" * 249, "t" * 248 + "u", "t" * 242, "t" * 243, "t"]
    copies = {topic: file_names.unfinished_directory(topic, 7) for topic in topics}
    assert [len(name) for name in copies.values()] == [255, 255, 255, 255, len("t-7.unfinished")]
    assert len(set(copies.values())) == len(topics)
    for topic, name in copies.items():
        assert [other for other in topics if file_names.is_unfinished_directory(name, other)] == [topic]
        assert file_names.parse_partition_directory(name) is None
        assert file_names.unfinished_path(f"/log/{topic}-7") == f"/log/{name}"
    assert not file_names.is_unfinished_directory("t.unfinished", "t")
    assert not file_names.is_unfinished_directory("t-7", "t")
