"""``commitlog erase``: flags, output, exit codes and the certificate's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import kafka_said
from tests.cli.in_process import Done, commitlog
from tests.cli.maintenance.test_retain import make
from tests.support.logs.key_filters import filters_in


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A topic with the keys 0 to 3, and ``keys`` with one of them in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys").write_text("2\n")
    return make(tmp_path / "log", {})


def erase(directory: Path, *options: object) -> Done:
    return commitlog("erase", "--log-dir", directory, *options)


REQUEST = ("--topics", "t", "--keys-file", "keys", "--reason", "request 17")


def test_records_are_erased_and_the_certificate_gets_a_name_of_its_time(directory: Path) -> None:
    done = erase(directory, *REQUEST)
    assert done.code == 0, done.stderr
    (certificate,) = Path().glob("erased-*.json")
    assert json.loads(certificate.read_text())["is_complete"]
    first, read, last, named = done.stdout.splitlines()
    assert first == "t-0: 1 record erased, in 1 segment; covers all offsets below 4"
    assert "3 records in" in read
    assert "none has one of the keys" in read
    assert last == "erase: 1 partition: 1 done"
    assert named == f"certificate: {certificate}"
    assert [row["offset"] for row in _rows(directory)] == [0, 1, 3]


def _rows(directory: Path) -> list[dict[str, int]]:
    shown = commitlog("cat", "--log-dir", directory, "-t", "t", "-e", "-q", "-J").stdout
    return [json.loads(line) for line in shown.splitlines()]


def test_json_has_what_the_certificate_has_of_each_partition(directory: Path) -> None:
    done = erase(directory, *REQUEST, "--json", "--certificate", "c.json")
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    stated = json.loads(Path("c.json").read_text())["partitions"]["t-0"]
    assert {key: row[key] for key in stated} == stated
    assert row["records_erased"] == 1


def test_a_dry_run_changes_nothing_and_writes_no_certificate(directory: Path) -> None:
    before = kafka_said.contents(directory)
    done = erase(directory, *REQUEST, "--dry-run")
    assert done.code == 0, done.stderr
    assert "1 record would be erased" in done.stdout
    assert kafka_said.contents(directory) == before
    assert not [*Path().glob("*.json")]


def test_a_certificate_is_checked_with_its_own_topics_and_fails_once_a_key_is_there_again(directory: Path) -> None:
    erase(directory, *REQUEST, "--certificate", "c.json")
    assert erase(directory, "--check", "c.json").code == 0
    commitlog("produce", "--log-dir", directory, "-t", "t", "-K", ":", stdin=b"2:again\n")
    done = erase(directory, "--check", "c.json")
    assert done.code == 1
    assert "1 have one of the keys" in done.stdout
    assert done.stdout.endswith("erase --check: 1 partition: 1 failed\n")


@pytest.mark.parametrize("missing", ["--topics", "--keys-file", "--reason"])
def test_what_is_missing_is_wrong_usage(missing: str, directory: Path) -> None:
    at = REQUEST.index(missing)
    done = erase(directory, *REQUEST[:at], *REQUEST[at + 2 :])
    assert done.code == 2
    assert "--keys-file and --reason" in done.stderr


def test_records_are_erased_by_a_condition_as_find_finds_them(directory: Path) -> None:
    condition = ("--where", "key_text IN ('1', '3')")
    found = commitlog("find", "--log-dir", directory, "-t", "t", *condition)
    assert [json.loads(line)["offset"] for line in found.stdout.splitlines()] == [1, 3]
    request = ("--topics", "t", *condition, "--reason", "request 18", "--certificate", "c.json")
    done = erase(directory, *request)
    assert done.code == 0, done.stderr
    assert "t-0: 2 records erased, in 2 segments" in done.stdout
    assert "none is one that was to be erased" in done.stdout
    assert [row["offset"] for row in _rows(directory)] == [0, 2]
    assert json.loads(Path("c.json").read_text())["asked"]["where"] == condition[1]
    assert erase(directory, "--check", "c.json").code == 0


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (("--where", "true", "--keys-file", "keys"), "--where in the place of --keys-file"),
        (("--where", "tru"), "tru"),
        (("--where", "timestamp < now()"), "write the value"),
    ],
)
def test_a_condition_that_cannot_be_followed_is_wrong_usage(
    given: tuple[str, ...], error: str, directory: Path
) -> None:
    done = erase(directory, "--topics", "t", "--reason", "request 18", *given)
    assert done.code == 2
    assert error in " ".join(done.stderr.split())
    assert len(_rows(directory)) == 4


def test_keys_are_given_as_hex(directory: Path) -> None:
    Path("keys").write_text("32\n")
    done = erase(directory, *REQUEST, "--keys-as", "hex")
    assert "1 record erased" in done.stdout


def test_a_file_of_keys_that_is_missing_is_named(directory: Path) -> None:
    Path("keys").unlink()
    done = erase(directory, *REQUEST)
    assert done.code == 1
    assert "keys: No such file" in done.stderr


def test_a_key_filter_goes_with_its_segment_and_others_are_found_as_before(directory: Path) -> None:
    made = commitlog("key-filters", "--log-dir", directory, "--topics", "t", "--config", "keyfilter.enable=true")
    assert made.code == 0, made.stderr
    [file] = (directory / "t-0").glob("*.keyfilter")
    filters = {each.segment.base_offset for each in filters_in(file.read_bytes())}
    assert len(filters) == 3
    assert erase(directory, *REQUEST).code == 0
    assert filters - {each.segment.base_offset for each in filters_in(file.read_bytes())} == {2}
    for key, count in (("1", 1), ("2", 0), ("3", 1)):
        found = commitlog("find", "--log-dir", directory, "-t", "t", "--key", key, "--all-partitions", "--json")
        assert len(found.stdout.splitlines()) == count, found
