"""An honest client among hostile ones of each kind that the torture suite has gets its answers."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from pyspark_commitlog.gateway.security.users import UsersFile
from tests.support.gateway import WireClient, create_topic, produce_fields, serving
from tests.support.logs.building import batch
from tests.torture.gateway import hostile

COUNT = 80
ROUNDS_S = 3.0


def test_an_honest_client_among_hostile_ones_gets_its_answers(tmp_path: Path) -> None:
    UsersFile(str(tmp_path / "users.json")).add(hostile.USER, hostile.PASSWORD)
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "commitlog_users_file": str(tmp_path / "users.json"),
        "sasl_enabled_mechanisms": "PLAIN",
        "queued_max_requests": 10,
        "queued_max_request_bytes": 2_000_000,
        "commitlog_login_queued_max_request_bytes": 100_000,
    }
    ending = Event()
    with serving(tmp_path / "log", **settings) as gateway:
        plain, secure = gateway.addresses.values()
        with WireClient(gateway) as client:
            for topic in ("honest", "bombs", "records"):
                create_topic(client, topic)
            client.ask(0, 8, **produce_fields("records", batch(bytes(900_000)).tobytes()))
        crowd = Thread(target=hostile.Crowd(plain, secure, COUNT, 1).run, args=(ending,))
        honest = hostile.Honest(gateway, secure)
        crowd.start()
        honest.start()
        honest.ending.wait(ROUNDS_S)
        honest.ending.set()
        honest.join(60)
        ending.set()
        crowd.join(60)
        assert not honest.error
        assert not honest.is_alive()
        assert len({name for _, name in honest.took_s}) == 9
