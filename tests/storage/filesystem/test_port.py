"""The contract of every file system behind the port, tested on the machine's and on the one in memory."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from pyspark_commitlog.storage.errors import CorruptionError
from pyspark_commitlog.storage.filesystem.local import LocalFileSystem
from pyspark_commitlog.storage.filesystem.operations import is_zero, parent_of, read_file, write_atomically
from pyspark_commitlog.storage.filesystem.port import FileSystem
from tests.support.disk.memory_filesystem import MemoryFileSystem


class Place(NamedTuple):
    """A file system, and an empty directory on it."""

    disk: FileSystem
    directory: str

    def __truediv__(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def put(self, name: str, data: bytes) -> str:
        with self.disk.open(self / name, "create") as file:
            file.write(0, data)
        return self / name

    def get(self, name: str) -> bytes:
        return read_file(self.disk, self / name, 1 << 24)


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    disk: FileSystem = LocalFileSystem() if request.param == "local" else MemoryFileSystem()
    disk.make_directory(str(tmp_path))
    return Place(disk, str(tmp_path))


@contextmanager
def held(place: Place, name: str) -> Iterator[None]:
    lock = place.disk.lock(place / name, wait=False)
    assert lock is not None
    with lock:
        yield


def re_path(path: object) -> str:
    return re.escape(str(path))


# --- files


def test_bytes_are_read_where_they_were_written(place: Place) -> None:
    with place.disk.open(place / "a", "create") as file:
        file.write(0, b"hello")
        file.write(3, bytearray(b"p me"))
        file.write(7, memoryview(b"!"))
        assert file.size() == 8
        assert bytes(file.read(0, 8)) == b"help me!"
        assert bytes(file.read(5, 2)) == b"me"
        assert file.path == place / "a"


def test_buffers_are_written_one_behind_the_other(place: Place) -> None:
    with place.disk.open(place / "a", "create") as file:
        file.write(1, b"one", b"", memoryview(b"two"), bytearray(b"three"))
        file.write(12)
        assert bytes(file.read(0, 100)) == b"\0onetwothree"


def test_a_read_ends_where_the_file_does(place: Place) -> None:
    with place.disk.open(place.put("a", b"12345"), "read") as file:
        assert bytes(file.read(3, 100)) == b"45"
        assert bytes(file.read(5, 1)) == b""
        assert bytes(file.read(1000, 1)) == b""
        assert bytes(file.read(2, 0)) == b""


def test_a_length_field_of_two_gigabytes_reserves_no_memory_for_them(place: Place) -> None:
    with place.disk.open(place.put("a", b"12345"), "read") as file:
        data = file.read(1, 2**31 - 1)
        assert bytes(data) == b"2345"
        assert data.nbytes == 4


def test_large_reads_are_complete(place: Place) -> None:
    content = os.urandom(5 << 20)
    with place.disk.open(place.put("a", content), "read") as file:
        assert file.read(0, len(content)) == content
        assert file.read(12345, 3 << 20) == content[12345 : 12345 + (3 << 20)]
        assert file.read(4 << 20, 3 << 20) == content[4 << 20 :]


def test_a_view_that_was_read_does_not_change_with_the_file(place: Place) -> None:
    with place.disk.open(place.put("a", b"12345"), "write") as file:
        data = file.read(0, 5)
        file.write(0, b"xxxxx")
        assert bytes(data) == b"12345"


def test_a_hole_reads_as_zeros(place: Place) -> None:
    with place.disk.open(place / "a", "create") as file:
        file.write(4, b"x")
        assert bytes(file.read(0, 5)) == b"\0\0\0\0x"


def test_truncate_cuts_and_extends_with_zeros(place: Place) -> None:
    with place.disk.open(place.put("a", b"12345"), "write") as file:
        file.truncate(2)
        file.truncate(4)
        assert bytes(file.read(0, 10)) == b"12\0\0"


def test_begin_sync_changes_nothing_that_is_read_and_leaves_sync_to_do(place: Place) -> None:
    with place.disk.open(place / "file", "create") as file:
        file.write(0, b"one")
        file.begin_sync()
        file.write(3, b"two")
        file.sync()
        assert bytes(file.read(0, 10)) == b"onetwo"


def test_create_keeps_the_content_of_an_existing_file(place: Place) -> None:
    place.put("a", b"12345")
    with place.disk.open(place / "a", "create") as file:
        assert file.size() == 5


def test_a_file_opened_for_reading_is_not_written(place: Place) -> None:
    with place.disk.open(place.put("a", b"12345"), "read") as file:
        with pytest.raises(OSError, match=re_path(place / "a")):
            file.write(0, b"x")
        with pytest.raises(OSError):  # noqa: PT011  (which one differs from system to system)
            file.truncate(0)
    assert place.get("a") == b"12345"


def test_a_closed_file_raises_and_may_be_closed_again(place: Place) -> None:
    file = place.disk.open(place.put("a", b"12345"), "write")
    file.close()
    file.close()
    for use in (lambda: file.read(0, 1), lambda: file.write(0, b"x"), file.size, file.sync, lambda: file.truncate(0)):
        with pytest.raises(OSError) as raised:  # noqa: PT011
            use()
        assert (raised.value.errno, raised.value.filename) == (errno.EBADF, place / "a")


def test_a_read_before_the_beginning_is_refused(place: Place) -> None:
    with place.disk.open(place.put("a", b"12345"), "read") as file, pytest.raises(OSError, match="Invalid"):
        file.read(-1, 2)


@pytest.mark.parametrize("mode", ["read", "write"])
def test_opening_a_missing_file_names_it(place: Place, mode: str) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        place.disk.open(place / "missing", mode)  # type: ignore[arg-type]
    assert raised.value.filename == place / "missing"


def test_an_open_file_outlives_its_name(place: Place) -> None:
    with place.disk.open(place.put("a", b"old"), "read") as file:
        place.put("b", b"new")
        place.disk.rename(place / "b", place / "a")
        assert bytes(file.read(0, 3)) == b"old"
        place.disk.remove(place / "a")
        assert bytes(file.read(0, 3)) == b"old"


# --- names


def test_list_is_sorted_and_knows_files_and_directories(place: Place) -> None:
    place.put("b", b"")
    place.put("a", b"")
    place.disk.make_directory(place / "c")
    assert place.disk.list(place.directory) == ["a", "b", "c"]


def test_list_of_a_missing_directory_fails(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.disk.list(place / "missing")
    with pytest.raises(NotADirectoryError):
        place.disk.list(place.put("a", b""))


def test_status_has_size_and_kind_and_identity(place: Place) -> None:
    place.put("a", b"12345")
    place.disk.make_directory(place / "d")
    first, directory = place.disk.status(place / "a"), place.disk.status(place / "d")
    assert first is not None and first.size == 5 and not first.is_directory  # noqa: PT018
    assert directory is not None
    assert directory.is_directory
    place.put("b", b"12345")
    place.disk.rename(place / "b", place / "a")
    second = place.disk.status(place / "a")
    assert second is not None
    assert second.inode != first.inode


def test_status_of_a_missing_name_is_none(place: Place) -> None:
    place.put("a", b"")
    assert place.disk.status(place / "missing") is None
    assert place.disk.status(place / "missing/b") is None
    assert place.disk.status(place / "a/b") is None


def test_set_modified_changes_what_status_reports(place: Place) -> None:
    place.disk.set_modified(place.put("a", b"1"), 1_600_000_000_123)
    status = place.disk.status(place / "a")
    assert status is not None
    assert status.modified_ms == 1_600_000_000_123


def test_rename_replaces(place: Place) -> None:
    place.put("a", b"new")
    place.put("b", b"old")
    place.disk.rename(place / "a", place / "b")
    assert place.disk.list(place.directory) == ["b"]
    assert place.get("b") == b"new"


def test_rename_moves_a_directory_with_its_content(place: Place) -> None:
    place.disk.make_directory(place / "topic-0")
    place.put("topic-0/log", b"1")
    place.disk.rename(place / "topic-0", place / "topic-0.gone-delete")
    assert place.disk.list(place.directory) == ["topic-0.gone-delete"]
    assert place.get("topic-0.gone-delete/log") == b"1"


def test_rename_of_a_missing_file_fails(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.disk.rename(place / "a", place / "b")


def test_rename_onto_a_directory_that_is_not_empty_fails(place: Place) -> None:
    place.disk.make_directory(place / "a")
    place.disk.make_directory(place / "b")
    place.put("b/c", b"")
    with pytest.raises(OSError) as raised:  # noqa: PT011
        place.disk.rename(place / "a", place / "b")
    assert raised.value.errno == errno.ENOTEMPTY


def test_a_link_is_a_second_name(place: Place) -> None:
    place.put("a", b"1")
    place.disk.link(place / "a", place / "b")
    with place.disk.open(place / "a", "write") as file:
        file.write(1, b"2")
    place.disk.remove(place / "a")
    assert place.get("b") == b"12"


def test_a_link_replaces_nothing(place: Place) -> None:
    place.put("a", b"1")
    place.put("b", b"2")
    with pytest.raises(FileExistsError):
        place.disk.link(place / "a", place / "b")
    assert place.get("b") == b"2"


def test_remove_accepts_files_and_empty_directories_and_missing_names(place: Place) -> None:
    place.put("a", b"")
    place.disk.make_directory(place / "d")
    for name in ("a", "d", "missing", "missing/a"):
        place.disk.remove(place / name)
    assert place.disk.list(place.directory) == []


def test_remove_of_a_directory_that_is_not_empty_fails(place: Place) -> None:
    place.disk.make_directory(place / "d")
    place.put("d/a", b"")
    with pytest.raises(OSError) as raised:  # noqa: PT011
        place.disk.remove(place / "d")
    assert raised.value.errno == errno.ENOTEMPTY


def test_make_directory_creates_parents_and_accepts_an_existing_one(place: Place) -> None:
    place.disk.make_directory(place / "x/y/z")
    place.disk.make_directory(place / "x/y/z")
    assert place.disk.list(place / "x/y") == ["z"]


def test_make_directory_where_a_file_is_fails(place: Place) -> None:
    place.put("a", b"")
    with pytest.raises(FileExistsError):
        place.disk.make_directory(place / "a")


def test_sync_directory_wants_a_directory(place: Place) -> None:
    place.disk.sync_directory(place.directory)
    with pytest.raises(NotADirectoryError):
        place.disk.sync_directory(place.put("a", b""))
    with pytest.raises(FileNotFoundError):
        place.disk.sync_directory(place / "missing")


# --- locks


def test_an_exclusive_lock_keeps_every_other_out_until_released(place: Place) -> None:
    lock = place.disk.lock(place / "lock")
    assert lock is not None
    assert place.disk.lock(place / "lock", wait=False) is None
    assert place.disk.lock(place / "lock", exclusive=False, wait=False) is None
    lock.release()
    lock.release()
    again = place.disk.lock(place / "lock", wait=False)
    assert again is not None
    again.release()


def test_shared_locks_coexist_and_exclude_an_exclusive_one(place: Place) -> None:
    first = place.disk.lock(place / "lock", exclusive=False)
    second = place.disk.lock(place / "lock", exclusive=False, wait=False)
    assert first is not None
    assert second is not None
    first.release()
    assert place.disk.lock(place / "lock", wait=False) is None
    second.release()
    with held(place, "lock"):
        pass


def test_a_lock_is_let_go_and_taken_again(place: Place) -> None:
    lock = place.disk.lock(place / "lock")
    assert lock is not None
    for _ in range(2):
        lock.unlock()
        with held(place, "lock"):
            pass
        assert lock.lock_again()
        assert place.disk.lock(place / "lock", wait=False) is None
    lock.release()
    assert not lock.lock_again()
    with held(place, "lock"):
        pass


def test_a_lock_whose_file_was_removed_is_not_taken_again(place: Place) -> None:
    lock = place.disk.lock(place / "lock")
    assert lock is not None
    lock.unlock()
    place.disk.remove(place / "lock")
    assert not lock.lock_again()


def test_taking_a_lock_again_waits_for_its_holder(place: Place) -> None:
    lock = place.disk.lock(place / "lock")
    assert lock is not None
    lock.unlock()
    holder, is_taken = place.disk.lock(place / "lock"), threading.Event()
    assert holder is not None

    def take() -> None:
        assert lock.lock_again()
        is_taken.set()

    waiting = threading.Thread(target=take)
    waiting.start()
    assert not is_taken.wait(0.05)
    holder.release()
    assert is_taken.wait(10)
    waiting.join()


def test_a_lock_that_another_holds_can_be_tried_without_waiting(place: Place) -> None:
    lock = place.disk.lock(place / "lock")
    assert lock is not None
    lock.unlock()
    with held(place, "lock"):
        for _ in range(2):
            assert not lock.lock_again(wait=False)
    assert lock.lock_again(wait=False)
    assert place.disk.lock(place / "lock", wait=False) is None


def test_a_lock_file_keeps_what_is_written_to_it(place: Place) -> None:
    lock = place.disk.lock(place / "lock")
    assert lock is not None
    assert lock.read(10) == b""
    for text in (b"long text", b"short", b""):
        lock.write(text)
        assert lock.read(100) == text
        assert lock.read(3) == text[:3]
    lock.write(b"kept")
    lock.release()
    assert read_file(place.disk, place / "lock", 100) == b"kept"


def test_locks_of_different_files_do_not_meet(place: Place) -> None:
    with held(place, "append"), held(place, "maintenance"):
        assert place.disk.lock(place / "append", wait=False) is None


def test_a_lock_waits_for_another_thread(place: Place) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        lock = place.disk.lock(place / "lock")
        order.append("second")
        assert lock is not None
        lock.release()

    with held(place, "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_released_lock_leaves_its_file(place: Place) -> None:
    with held(place, "lock"):
        pass
    assert place.disk.list(place.directory) == ["lock"]


def test_the_shared_lock_coexists_with_itself_and_with_flock(place: Place) -> None:
    first = place.disk.lock_shared_with_broker(place / ".lock")
    second = place.disk.lock_shared_with_broker(place / ".lock")
    assert first is not None
    assert second is not None
    with held(place, ".lock"):
        pass
    first.release()
    second.release()


# --- helpers


@pytest.mark.parametrize(
    ("path", "parent"), [("/a/b", "/a"), ("/a/b/", "/a"), ("/a", "/"), ("a", "."), ("a/b", "a"), ("/", "/")]
)
def test_parent_of_a_path(path: str, parent: str) -> None:
    assert parent_of(path) == parent


def test_read_file_refuses_one_that_is_too_large(place: Place) -> None:
    path = place.put("a", b"12345")
    assert read_file(place.disk, path, 5) == b"12345"
    with pytest.raises(CorruptionError, match=re_path(f"{path}: the file has 5 bytes, but a")):
        read_file(place.disk, path, 4)


@pytest.mark.parametrize("piece_bytes", [2, 1 << 20])
def test_is_zero_looks_at_every_byte_between_two_positions(
    place: Place, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr("pyspark_commitlog.storage.filesystem.operations.PIECE_BYTES", piece_bytes)
    with place.disk.open(place.put("a", b"x\0\0\0\0x\0"), "read") as file:
        assert [is_zero(file, 1, end) for end in range(1, 8)] == [True] * 5 + [False] * 2
        assert [is_zero(file, start, 6) for start in range(7)] == [False] * 6 + [True]
        assert is_zero(file, 6, 100)


def test_write_atomically_replaces_and_leaves_no_other_file(place: Place) -> None:
    write_atomically(place.disk, place / "a", b"first, and longer")
    place.put("a.tmp", b"left over from a crash, longer than what comes")
    write_atomically(place.disk, place / "a", b"second")
    assert place.get("a") == b"second"
    assert place.disk.list(place.directory) == ["a"]
