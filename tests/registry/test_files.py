"""What is of the files alone: processes that die or are stopped, and what a crash or damage leaves."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_commitlog.registry import files, journal, tree
from pyspark_commitlog.registry.errors import (
    ConnectionLossError,
    NodeExistsError,
    RegistryError,
    SessionExpiredError,
)
from pyspark_commitlog.registry.files import FILE, LOCK, SESSION, FileRegistry
from pyspark_commitlog.registry.operations import delete_tree, register, tree_of
from pyspark_commitlog.registry.port import SessionState
from pyspark_commitlog.storage import CorruptionError, LocalFileSystem, StorageError
from pyspark_commitlog.storage.filesystem.locks import LocalLock
from tests.support.disk.faulty_filesystem import FaultyFileSystem, fail, tear
from tests.support.waiting import soon

PROGRAM = """
import sys
from pyspark_commitlog.registry.files import FileRegistry
registry = FileRegistry(sys.argv[1])
for path in sys.argv[2:]:
    registry.create(path, b"it", ephemeral=True)
registry.children("/", lambda *_: None)  # so that it gives signs of life
registry.create("/kept/by-" + registry.session)
print(registry.session, flush=True)
sys.stdin.read()
"""


@contextmanager
def process_with(directory: Path, *paths: str) -> Iterator[subprocess.Popen[str]]:
    """A process with a session that owns ``paths``; it is killed at the end."""
    command = [sys.executable, "-c", PROGRAM, str(directory), *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip()
        yield process
        process.kill()


def session_files(directory: Path) -> list[Path]:
    return list(directory.glob(f"{SESSION}*"))


# --- processes


def test_a_process_that_is_killed_leaves_exactly_what_is_no_session_s(tmp_path: Path) -> None:
    with FileRegistry(str(tmp_path)) as registry, process_with(tmp_path, "/ids/1", "/ids/2", "/owners/t/0") as process:
        registry.create("/ids/3", b"ours", ephemeral=True)
        assert registry.children("/ids") == ["1", "2", "3"]
        process.kill()
        process.wait()
        assert registry.children("/ids") == ["3"]
        assert registry.find("/owners/t/0") is None
        assert set(tree_of(registry)) - {"/"} == {
            "/ids",
            "/ids/3",
            "/owners",
            "/owners/t",
            "/kept",
            f"/kept/{registry.children('/kept')[0]}",
        }
        assert len(session_files(tmp_path)) == 1


def test_a_watch_tells_of_a_process_that_was_killed(tmp_path: Path) -> None:
    calls: list[object] = []
    with FileRegistry(str(tmp_path)) as registry, process_with(tmp_path, "/ids/1") as process:
        registry.children("/ids", lambda *_: calls.append(1))
        process.kill()
        soon(lambda: calls == [1])
        assert registry.children("/ids") == []


def test_the_id_of_a_killed_process_can_be_taken_at_once(tmp_path: Path) -> None:
    with FileRegistry(str(tmp_path)) as registry:
        with process_with(tmp_path, "/ids/1"), pytest.raises(NodeExistsError):
            register(registry, "/ids/1", b"ours")
        register(registry, "/ids/1", b"ours")
        assert registry.get("/ids/1")[:2] == (b"ours", 0)


def test_a_stopped_process_keeps_its_nodes(tmp_path: Path) -> None:
    with FileRegistry(str(tmp_path)) as registry, process_with(tmp_path, "/ids/1") as process:
        process.send_signal(signal.SIGSTOP)
        assert registry.children("/ids") == ["1"]
        with pytest.raises(NodeExistsError):
            register(registry, "/ids/1", b"ours")
        process.send_signal(signal.SIGCONT)


def test_a_process_that_does_nothing_is_reported_and_so_is_that_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyspark_commitlog.registry.files.SILENT_S", 0.5)
    monkeypatch.setattr("pyspark_commitlog.registry.files.SIGN_S", 0.1)
    with FileRegistry(str(tmp_path), look_s=0.01) as registry, process_with(tmp_path, "/ids/1") as process:
        registry.children("/ids", lambda *_: None)
        process.send_signal(signal.SIGSTOP)
        soon(lambda: f"process {process.pid} of" in caplog.text and "has done nothing for" in caplog.text)
        process.send_signal(signal.SIGCONT)
        soon(lambda: f"process {process.pid} of" in caplog.text and "is running again" in caplog.text)
        assert registry.children("/ids") == ["1"]


def test_sessions_that_died_while_nobody_was_here_are_gone_at_the_next_start(tmp_path: Path) -> None:
    with process_with(tmp_path, "/ids/1"), process_with(tmp_path):
        pass
    assert len(session_files(tmp_path)) == 2
    with FileRegistry(str(tmp_path)) as registry:
        assert registry.children("/ids") == []
        assert len(registry.children("/kept")) == 2
        assert len(session_files(tmp_path)) == 1


def test_a_writer_waits_for_a_stopped_one_and_then_says_who_it_is(tmp_path: Path) -> None:
    with FileRegistry(str(tmp_path), timeout_ms=50) as registry:
        registry.create("/a", b"1")
        lock = LocalFileSystem().lock(str(tmp_path / LOCK))
        assert lock is not None
        with lock:
            lock.write(b"process 7 of nobody on nowhere")
            with pytest.raises(ConnectionLossError, match=r"held this lock for 50 ms.*process 7 of nobody"):
                registry.set("/a", b"2")
            assert registry.get("/a").data == b"1"
        registry.set("/a", b"2")


# --- what a crash or damage leaves


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a registry with a node and a change, which no session has."""
    with FileRegistry(str(tmp_path)) as registry:
        registry.create("/a", b"1")
        registry.set("/a", b"2")
    return tmp_path / FILE


def test_a_write_that_a_crash_cut_short_is_as_if_it_had_not_been(file: Path) -> None:
    whole = file.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for cut in range(last + 1, len(whole)):
        for torn in (whole[:cut], whole[:cut].ljust(len(whole), b"\0"), whole[:last] + b"\0" * (cut - last) + b"\n"):
            file.write_bytes(torn)
            with FileRegistry(str(file.parent)) as registry:
                assert registry.get("/a")[:2] == (b"1", 0)
                registry.set("/a", b"3")
            with FileRegistry(str(file.parent)) as registry:
                assert registry.get("/a")[:2] == (b"3", 1)


def test_what_a_crash_cut_short_is_reported_when_it_is_cut_off(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_bytes(file.read_bytes()[:-5])
    with FileRegistry(str(file.parent)) as registry:
        registry.set("/a", b"3")
    assert "which a failed write or a crash left" in caplog.text


def test_a_changed_byte_is_reported_wherever_it_is(file: Path) -> None:
    whole = file.read_bytes()
    name = range(len("commitlog-registry 1 "), len("commitlog-registry 1 ") + 32)  # any will do
    for position in {*range(len(whole) - 1)} - {*name}:  # without the last end of a line, it is a torn write
        changed = bytearray(whole)
        changed[position] ^= 0x01
        file.write_bytes(changed)
        with pytest.raises(CorruptionError, match="stop all gateways"):
            FileRegistry(str(file.parent))


def test_a_file_that_is_no_registry_is_refused_and_left(file: Path) -> None:
    for content in (b"", b"something else", b"commitlog-registry 2 " + b"0" * 32 + b"\n"):
        file.write_bytes(content)
        with pytest.raises(CorruptionError):
            FileRegistry(str(file.parent))
        assert file.read_bytes() == content


def test_a_file_that_was_removed_or_cut_under_a_session_is_reported(file: Path) -> None:
    registry = FileRegistry(str(file.parent))
    content = file.read_bytes()
    file.write_bytes(content[:-10])
    with pytest.raises(CorruptionError):
        registry.get("/a")
    file.unlink()
    with pytest.raises(CorruptionError, match="removed while it was in use"):
        registry.get("/a")
    file.write_bytes(content)
    assert registry.get("/a").data == b"2"
    registry.close()


def test_a_session_on_a_full_disk_goes_on_once_there_is_space(tmp_path: Path) -> None:
    disk = FaultyFileSystem(LocalFileSystem())
    with FileRegistry(str(tmp_path), filesystem=disk) as registry:
        registry.create("/a", b"1")
        disk.rules.append(tear(f"*/{FILE}*", after=10, lasting=True))
        for _ in range(3):
            with pytest.raises(StorageError, match="No space left on device"):
                registry.set("/a", b"2")
            assert registry.get("/a")[:2] == (b"1", 0)
        disk.rules.clear()
        assert registry.set("/a", b"3") == 1
    with FileRegistry(str(tmp_path)) as later:
        assert later.get("/a")[:2] == (b"3", 1)


def test_after_a_failed_sync_a_session_goes_on_in_another_file(tmp_path: Path) -> None:
    """Another sync of the same file may succeed although something of it is not on disk."""
    disk = FaultyFileSystem(LocalFileSystem())
    with FileRegistry(str(tmp_path), filesystem=disk) as registry, FileRegistry(str(tmp_path)) as other:
        registry.create("/a", b"1")
        inode = (tmp_path / FILE).stat().st_ino
        disk.rules.append(fail("sync", f"*/{FILE}"))
        with pytest.raises(StorageError, match="Input/output error"):
            registry.set("/a", b"2")
        registry.set("/a", b"3")
        assert (tmp_path / FILE).stat().st_ino != inode
        assert other.get("/a") == registry.get("/a")
        assert other.get("/a").data == b"3"
        other.set("/a", b"4")
        assert registry.get("/a").data == b"4"


def test_a_disk_without_room_for_the_name_of_a_lock_s_holder_leaves_no_lock_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_lock: LocalLock, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(LocalLock, "write", full)
        registry = FileRegistry(str(tmp_path), timeout_ms=50)
        registry.create("/a", b"1")
    assert registry.set("/a", b"2") == 1
    registry.close()


def test_a_file_with_many_changes_is_replaced_and_others_go_on_without_missing_one(tmp_path: Path) -> None:
    with FileRegistry(str(tmp_path)) as registry, FileRegistry(str(tmp_path), look_s=0.01) as other:
        seen: list[object] = []
        registry.create("/a", b"0")
        name = (tmp_path / FILE).read_bytes().partition(b"\n")[0]
        other.get("/a", lambda *call: seen.append(call))
        for number in range(40):
            registry.set("/a", b"x" * 20_000 + b"%d" % number)
        assert (tmp_path / FILE).read_bytes().partition(b"\n")[0] != name
        assert (tmp_path / FILE).stat().st_size < 300_000
        assert other.get("/a")[:2] == (b"x" * 20_000 + b"39", 40)
        soon(lambda: len(seen) == 1)
        other.set("/a", b"last", version=40)
        assert registry.get("/a").data == b"last"


def test_a_session_that_was_closed_leaves_one_file(tmp_path: Path) -> None:
    registry = FileRegistry(str(tmp_path))
    registry.create("/ids/1", ephemeral=True)
    registry.close()
    assert {path.name for path in tmp_path.iterdir()} == {FILE, LOCK}
    with pytest.raises(SessionExpiredError):
        registry.create("/ids/1")


def test_a_session_whose_file_was_removed_by_hand_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SIGN_S", 0.01)
    states: list[SessionState] = []
    with FileRegistry(str(tmp_path), look_s=0.01) as registry, FileRegistry(str(tmp_path)) as other:
        register(registry, "/ids/1", b"it")
        (tmp_path / f"{SESSION}{registry.session}").unlink()
        assert other.find("/ids/1") is None  # to others, it has ended
        registry.listen(states.append)
        soon(lambda: states == [SessionState.EXPIRED])
        register(registry, "/ids/1", b"it again")
        for _ in range(3):
            assert other.get("/ids/1").data == b"it again"
        soon(lambda: len(session_files(tmp_path)) == 2)
    assert states == [SessionState.EXPIRED]


def test_clients_that_make_many_nodes_fill_the_registry_and_do_not_ruin_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "KEPT_BYTES_MAX", 300_000)
    monkeypatch.setattr(journal, "_CHANGES_BYTES_MAX", 100_000)
    monkeypatch.setattr(journal, "_FILE_BYTES_MAX", 3 * 300_000 + 2 * 100_000)  # JSON takes up to three times as much
    with FileRegistry(str(tmp_path)) as registry, FileRegistry(str(tmp_path)) as other:
        for number in range(30):
            registry.create(f"/consumers/{number}{'ä' * 1000}/offsets/t/0", b"1")
        with pytest.raises(RegistryError, match="delete those that nobody needs"):
            registry.create(f"/consumers/longest{'ä' * 16_000}/offsets/t/0", b"1")
        made = other.children("/consumers")
        for _ in range(50):
            registry.set(f"/consumers/{made[0]}/offsets/t/0", b"1" * 10_000)
        register(other, "/brokers/ids/1", b"it")
        with FileRegistry(str(tmp_path)) as later:
            assert later.children("/brokers/ids") == ["1"]
        for path in (f"/consumers/{made[0]}", f"/consumers/{made[1]}"):
            delete_tree(registry, path)
        registry.create("/consumers/new/offsets/t/0", b"1")
