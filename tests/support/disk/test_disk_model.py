"""What a power cut may leave: that what was synced is kept, and that the rest may go in every way it should."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from tests.support.disk.disk_model import BLOCK_BYTES
from tests.support.disk.disks import SEEDS, disk_with, get, outcomes, put
from tests.support.disk.memory_filesystem import MemoryFileSystem

# --- bytes


def test_synced_bytes_are_always_kept() -> None:
    disk = disk_with("/a", b"x" * 2000)
    assert outcomes(disk, "/a") == {b"x" * 2000}


def test_unsynced_bytes_are_lost_kept_or_torn() -> None:
    disk = disk_with("/a", b"")
    put(disk, "/a", b"x" * 2000)
    found = outcomes(disk, "/a")
    assert {b"", b"x" * 2000, b"x" * 512, b"x" * 1024, bytes(2000)} <= found
    assert any(b"\0x" in content for content in found if content is not None), "a hole before what was kept"
    for content in found:
        assert content is not None
        for start in range(0, len(content), BLOCK_BYTES):
            assert len(set(content[start : start + BLOCK_BYTES])) == 1, "a block is whole or not there"


def test_an_overwritten_block_has_one_of_its_contents_never_a_mixture() -> None:
    disk = disk_with("/a", b"0" * 600)
    put(disk, "/a", b"1" * 100)
    put(disk, "/a", b"2" * 100, position=50)
    versions = {b"0" * 600, b"1" * 100 + b"0" * 500, b"1" * 50 + b"2" * 100 + b"0" * 450}
    assert outcomes(disk, "/a") == versions


def test_small_appends_to_one_block_are_lost_from_the_end_only() -> None:
    disk = disk_with("/a", b"")
    for index in range(3):
        put(disk, "/a", bytes([65 + index]) * 10, position=10 * index)
    for content in outcomes(disk, "/a"):
        assert content is not None
        written = content.rstrip(b"\0")
        assert (b"A" * 10 + b"B" * 10 + b"C" * 10).startswith(written)
        assert len(written) in (0, 10, 20, 30)


def test_a_sync_makes_sure_only_what_was_written_before_it() -> None:
    disk = disk_with("/a", b"")
    put(disk, "/a", b"1" * 512, sync=True)
    put(disk, "/a", b"2" * 512, position=512)
    found = outcomes(disk, "/a")
    assert {content[:512] for content in found if content is not None} == {b"1" * 512}
    assert {b"1" * 512, b"1" * 512 + b"2" * 512, b"1" * 512 + bytes(512)} == found


def test_a_truncation_is_kept_or_lost() -> None:
    disk = disk_with("/a", b"x" * 1000)
    with disk.open("/a", "write") as file:
        file.truncate(300)
    assert outcomes(disk, "/a") == {b"x" * 1000, b"x" * 300}


def test_what_is_written_after_a_truncation_is_not_there_without_it() -> None:
    disk = disk_with("/a", b"old" * 100)
    with disk.open("/a", "write") as file:
        file.truncate(0)
        file.write(0, b"new")
    assert outcomes(disk, "/a") == {b"old" * 100, b"", b"\0\0\0", b"new"}


def test_bytes_that_were_cut_off_do_not_come_back_behind_a_kept_truncation() -> None:
    disk = disk_with("/a", b"old" * 500)
    with disk.open("/a", "write") as file:
        file.truncate(3)
        file.write(1000, b"new")
    for content in outcomes(disk, "/a") - {b"old" * 500}:
        assert content is not None
        assert b"old" not in content[3:]


def test_a_write_before_a_kept_truncation_may_still_be_lost() -> None:
    disk = disk_with("/a", b"")
    with disk.open("/a", "write") as file:
        file.write(0, b"x" * 1024)
        file.truncate(2048)
    found = outcomes(disk, "/a")
    assert {bytes(2048), b"x" * 1024 + bytes(1024), b"x" * 512 + bytes(1536)} <= found


# --- names


def test_a_new_name_is_lost_or_kept_even_of_a_synced_file() -> None:
    disk = MemoryFileSystem()
    put(disk, "/a", b"1", sync=True)
    assert outcomes(disk, "/a") == {None, b"1"}
    disk.sync_directory("/")
    assert outcomes(disk, "/a") == {b"1"}


def test_a_name_may_be_kept_of_a_file_that_was_never_synced() -> None:
    disk = MemoryFileSystem()
    put(disk, "/a", b"1")
    disk.sync_directory("/")
    assert outcomes(disk, "/a") == {b"", b"\0", b"1"}


def test_changes_of_one_directory_are_kept_in_order() -> None:
    disk = disk_with("/0", b"x")
    for index in range(5):
        disk.rename(f"/{index}", f"/{index + 1}")
    found = {tuple(disk.crash(seed).list("/")) for seed in SEEDS}
    assert found == {(str(index),) for index in range(6)}, "always under one name, and under each some time"


def test_of_a_removed_file_the_name_comes_back_only_with_those_removed_after_it() -> None:
    disk = disk_with("/a", b"x")
    disk.link("/a", "/b")
    disk.sync_directory("/")
    disk.remove("/a")
    disk.remove("/b")
    assert {tuple(disk.crash(seed).list("/")) for seed in SEEDS} == {("a", "b"), ("b",), ()}


def test_directories_know_nothing_of_each_other() -> None:
    disk = MemoryFileSystem()
    for directory in ("/x", "/y"):
        disk.make_directory(directory)
    disk.sync_directory("/")
    put(disk, "/x/first", b"", sync=True)
    put(disk, "/y/second", b"", sync=True)
    found = {(get(left, "/x/first"), get(left, "/y/second")) for left in map(disk.crash, SEEDS)}
    assert found == {(None, None), (b"", None), (None, b""), (b"", b"")}


def test_a_rename_to_another_directory_may_leave_two_names_or_none() -> None:
    disk = disk_with("/a", b"x")
    disk.make_directory("/d")
    disk.sync_directory("/")
    disk.rename("/a", "/d/a")
    found = {(get(left, "/a"), get(left, "/d/a")) for left in map(disk.crash, SEEDS)}
    assert found == {(b"x", None), (None, b"x"), (b"x", b"x"), (None, None)}


def test_a_lost_directory_takes_everything_in_it() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/d")
    put(disk, "/d/a", b"x", sync=True)
    disk.sync_directory("/d")
    assert {tuple(left.list("/")) for left in map(disk.crash, SEEDS)} == {(), ("d",)}
    assert {get(left, "/d/a") for left in map(disk.crash, SEEDS)} == {None, b"x"}


def test_two_names_of_one_file_stay_two_names_of_one_file() -> None:
    disk = disk_with("/a", b"x")
    disk.link("/a", "/b")
    disk.sync_directory("/")
    left = disk.crash(1)
    put(left, "/a", b"y")
    assert get(left, "/b") == b"y"


def test_a_time_that_was_set_is_sure_after_a_sync() -> None:
    disk = disk_with("/a", b"x")
    before = disk.status("/a")
    disk.set_modified("/a", 5)
    assert before is not None
    assert {modified_ms(left) for left in map(disk.crash, SEEDS)} == {before.modified_ms, 5}
    with disk.open("/a", "write") as file:
        file.sync()
    assert {modified_ms(left) for left in map(disk.crash, SEEDS)} == {5}


def modified_ms(disk: MemoryFileSystem) -> int:
    status = disk.status("/a")
    assert status is not None
    return status.modified_ms


# --- against a plain model: without a crash it is a dictionary of byte strings

writes = st.tuples(st.just("write"), st.integers(0, 1500), st.binary(min_size=1, max_size=900))
truncates = st.tuples(st.just("truncate"), st.integers(0, 1500), st.just(b""))
syncs = st.tuples(st.just("sync"), st.just(0), st.just(b""))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(writes, truncates, syncs), max_size=12), st.integers(0, 2**32))
def test_a_crash_leaves_every_block_one_of_its_contents_since_the_sync(
    steps: list[tuple[str, int, bytes]], seed: int
) -> None:
    """Plays the steps on plain bytes, remembering all contents since the sync; what is left must be made of those."""
    disk = disk_with("/a", b"")
    history = [b""]
    with disk.open("/a", "write") as file:
        for kind, number, data in steps:
            content = history[-1]
            if kind == "write":
                file.write(number, data)
                padded = content.ljust(number, b"\0")
                history.append(padded[:number] + data + padded[number + len(data) :])
            elif kind == "truncate":
                file.truncate(number)
                history.append(content[:number].ljust(number, b"\0"))
            else:
                file.sync()
                history = [content]
    assert get(disk, "/a") == history[-1]
    left = get(disk.crash(seed), "/a")
    assert left is not None
    assert min(map(len, history)) <= len(left) <= max(map(len, history))
    width = max(map(len, history)) + BLOCK_BYTES
    for start in range(0, len(left), BLOCK_BYTES):
        block = left[start : start + BLOCK_BYTES]
        contents = {version.ljust(width, b"\0")[start : start + len(block)] for version in history}
        assert block in contents or any(is_cut(block, version) for version in contents)


def is_cut(block: bytes, version: bytes) -> bool:
    """Whether ``block`` is ``version`` up to where a truncation cut it, zeros from there."""
    return any(block == version[:end].ljust(len(block), b"\0") for end in range(len(block)))
