"""Two thousand hostile clients beside an honest one, which is answered soon; the gateway's memory stays bounded.

The hostile ones attack each limit of ``docs/limits.md`` at once: they claim large requests and stop, send a byte per
second, never log in, log in with wrong passwords, send batches that decompress to much, ask old versions for these,
name many things, and read no answers. They come again when they are sent away.
"""

from __future__ import annotations

import resource
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, NamedTuple

from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.storage.format.constants import Codec
from tests.support.gateway import (
    Listening,
    WireClient,
    create_topic,
    fetch_fields,
    produce_fields,
    request_body,
    request_head,
)
from tests.support.logs import building
from tests.support.ports import free_port
from tests.torture.gateway.server import Server
from tests.torture.suite import Run, Suite

HOSTILE = 2000
ANSWERED_S = 1.0  # the 99th percentile of an honest client's requests
MEMORY_BYTES_MAX = 1 << 30  # docs/limits.md states it
FILES = 3 * HOSTILE
BOMB_BYTES = 300 << 20
PAUSE_S = 0.05  # of the honest client
USER, PASSWORD = "alice", "right"


class Attack(NamedTuple):
    """The bytes that a hostile client sends at first, and then once per second."""

    name: str
    first: bytes
    then: bytes = b""
    logs_in: bool = False  # on the listener with logins


def frame(key: int, version: int, body: bytes) -> bytes:
    content = request_head(key, version, 1) + body
    return struct.pack(">i", len(content)) + content


def asked(key: int, version: int, fields: dict[str, Any]) -> bytes:
    return frame(key, version, request_body(key, version, fields))


def login(password: str) -> bytes:
    token = f"\0{USER}\0{password}".encode()
    return asked(17, 1, {"mechanism": "PLAIN"}) + asked(36, 1, {"auth_bytes": token})


def attacks() -> list[Attack]:
    """All kinds of hostile clients."""
    bomb = building.batch(bytes(BOMB_BYTES), codec=Codec.ZSTD, timestamps=building.now_ms()).tobytes()
    names = tuple({"name": f"no-{number}"} for number in range(2000))
    metadata = {"topics": names, "allow_auto_topic_creation": False}
    groups = tuple(f"group-{number}" for number in range(2000))
    claim = struct.pack(">i", 100_000_000)
    node = asked(32, 1, {"resources": [{"resource_type": 4, "resource_name": "1"}]})
    wrong = {"name": "a b", "num_partitions": 1, "replication_factor": 1}
    creation = asked(19, 4, {"topics": [wrong], "timeout": 1000})
    many_topics, many_groups = asked(3, 4, metadata), asked(15, 0, {"groups": groups})
    records = asked(1, 8, fetch_fields("records", 0))
    return [
        Attack("claims 100 MB, and sends a byte per second", claim + bytes(1000), b"x"),
        Attack("claims 100 MB, and sends 300 KB and a byte per second", claim + bytes(300_000), b"x"),
        Attack("stops amid a length", b"\0\0", b""),
        Attack("says nothing", b""),
        Attack("never logs in", struct.pack(">i", 524_288) + bytes(70_000), b"x", logs_in=True),
        Attack("says nothing before its login", b"", logs_in=True),
        Attack("has a wrong password", login("wrong"), logs_in=True),
        Attack("sends what decompresses to much", asked(0, 8, produce_fields("bombs", bomb))),
        Attack("wants that converted", asked(1, 2, fetch_fields("bombs", 0))),
        Attack("names many topics, and reads no answer", many_topics, many_topics),
        Attack("names many groups, and reads no answer", many_groups, many_groups),
        Attack("reads none of the records", records, records),
        Attack("describes the configs of a node, and reads no answer", node, node),
        Attack("creates topics that may not be, and reads no answer", creation, creation),
    ]


class Crowd:
    """Hostile clients in one thread, which sends for them, and connects again those that were sent away."""

    def __init__(self, plain: tuple[str, int], secure: tuple[str, int], count: int, seed: int) -> None:
        self._addresses = plain, secure
        self._count, self._chance = count, Random(seed)
        self._attacks = attacks()
        self._clients: dict[socket.socket, tuple[Attack, float]] = {}

    def run(self, ending: Event) -> None:
        """Attacks until ``ending`` is set."""
        while not ending.is_set():
            began_s = time.monotonic()
            for _ in range(min(100, self._count - len(self._clients))):
                with suppress(OSError):
                    self._come(self._attacks[self._chance.randrange(len(self._attacks))])
            for client, (attack, at_s) in list(self._clients.items()):
                if at_s <= time.monotonic():
                    self._go_on(client, attack)
            ending.wait(max(0.0, 0.1 - (time.monotonic() - began_s)))
        for client in self._clients:
            client.close()

    def _come(self, attack: Attack) -> None:
        client = socket.create_connection(self._addresses[attack.logs_in], timeout=5)
        client.setblocking(False)
        self._clients[client] = attack, time.monotonic() + self._chance.uniform(0.5, 1.5)
        with suppress(BlockingIOError):
            client.send(attack.first)

    def _go_on(self, client: socket.socket, attack: Attack) -> None:
        try:
            with suppress(BlockingIOError):
                if not client.recv(10, socket.MSG_PEEK):
                    raise OSError
            with suppress(BlockingIOError):
                client.send(attack.then)
        except OSError:
            client.close()
            del self._clients[client]
        else:
            self._clients[client] = attack, time.monotonic() + 1


class Honest(Thread):
    """A client that asks something every now and then, and measures."""

    def __init__(self, server: Listening, secure: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self._server, self._secure = server, secure
        self.ending, self.took_s, self.error = Event(), list[tuple[float, str]](), ""

    def run(self) -> None:
        try:
            with WireClient(self._server) as client:
                while not self.ending.wait(PAUSE_S):
                    for name, ask in self._questions(client):
                        began_s = time.monotonic()
                        ask()
                        self.took_s.append((time.monotonic() - began_s, name))
        except Exception as error:
            self.error = repr(error)

    def _questions(self, client: WireClient) -> Iterator[tuple[str, Callable[[], object]]]:
        small, large = (building.batch(bytes(size), timestamps=building.now_ms()).tobytes() for size in (100, 200_000))
        for name, key, version, fields in (
            ("ApiVersions", 18, 2, {}),
            ("Metadata", 3, 4, {"topics": [{"name": "honest"}], "allow_auto_topic_creation": False}),
            ("Produce", 0, 8, produce_fields("honest", small)),
            ("Produce of 200 KB", 0, 8, produce_fields("honest", large)),
            ("Fetch", 1, 8, fetch_fields("honest", 0)),
            ("FindCoordinator", 10, 3, {"key": "honest", "key_type": 0}),
            ("OffsetFetch", 9, 5, {"group_id": "honest", "topics": None}),
            ("InitProducerId", 22, 1, {"transactional_id": None}),
        ):
            yield name, lambda key=key, version=version, fields=fields: client.ask(key, version, **fields)
        yield "a login", self._log_in

    def _log_in(self) -> None:
        with socket.create_connection(self._secure, timeout=30) as client:
            client.sendall(login(PASSWORD))
            data = b""
            while len(data) < 8 or len(data) < 8 + sum(struct.unpack(">i", data[:4])):
                data += client.recv(1000) or _ended()


def _ended() -> bytes:
    raise EOFError("a right login was refused")


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def live(run: Run, seed: int, directory: Path) -> None:
    """A gateway's life among hostile clients, as long as the run lasts."""
    secure = ("127.0.0.1", free_port())
    directory.mkdir(parents=True)
    UsersFile(str(directory / "users.json")).add(USER, PASSWORD)
    server = Server(
        directory / "log",
        listeners=f"PLAINTEXT://127.0.0.1:{(plain := free_port())},SASL_PLAINTEXT://127.0.0.1:{secure[1]}",
        commitlog_users_file=directory / "users.json",
        sasl_enabled_mechanisms="PLAIN",
    )
    server.address = server.address._replace(port=plain)
    server.start()
    crowd = None
    try:
        with WireClient(server) as client:
            for topic in ("honest", "bombs", "records"):
                create_topic(client, topic)
            client.ask(0, 8, **produce_fields("records", building.batch(bytes(900_000)).tobytes()))
        arguments = [str(plain), str(secure[1]), str(HOSTILE), str(seed)]
        crowd = subprocess.Popen([sys.executable, "-m", "tests.torture.gateway.hostile", *arguments])
        _watch(run, server, Honest(server, secure), crowd)
    finally:
        if crowd is not None:
            crowd.kill()
            crowd.wait()
        server.kill()


def _watch(run: Run, server: Server, honest: Honest, crowd: subprocess.Popen[bytes]) -> None:
    honest.start()
    memory, sockets, counted = 0, 0, 0
    while not (run.enough or honest.error or server.has_ended or crowd.poll() is not None):
        time.sleep(1)
        memory, sockets = max(memory, server.memory_bytes()), max(sockets, server.descriptors()["socket"])
        run.passed(len(honest.took_s) - counted)
        counted = len(honest.took_s)
    honest.ending.set()
    honest.join(60)
    took_s = [each for each, _ in honest.took_s] or [float("inf")]
    slow = Counter(name for each, name in honest.took_s if each > ANSWERED_S)
    run.note("MB at most", memory >> 20)
    run.note("sockets at most", sockets)
    run.note("ms at the median", round(1000 * percentile(took_s, 0.5)))
    run.note("ms at the 99th percentile", round(1000 * percentile(took_s, 0.99)))
    assert not server.has_ended, "the gateway has ended"
    assert not honest.error, honest.error
    assert crowd.poll() is None, "the hostile clients have ended"
    if run.count >= SUITE.count:  # a short run, beside other tests, measures those
        assert percentile(took_s, 0.99) <= ANSWERED_S, f"an honest client waits: {slow}"
    assert memory <= MEMORY_BYTES_MAX, f"the gateway takes {memory >> 20} MB"


def run(run: Run) -> None:
    for case in run.cases():
        with run.watching(case, "a gateway among hostile clients"):
            live(run, case.chance.randrange(1 << 30), run.directory / f"{case.number}")


SUITE = Suite("answers", 20_000, run)

if __name__ == "__main__":
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, highest), highest))
    plain_port, secure_port, how_many, seed_given = map(int, sys.argv[1:])
    Crowd(("127.0.0.1", plain_port), ("127.0.0.1", secure_port), how_many, seed_given).run(Event())
