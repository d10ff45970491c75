"""LiveSettings: a change of which a part cannot be in force yet is tried again, and its other parts are in force."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.listeners import limits_of_addresses
from pyspark_commitlog.gateway.live_settings import Change, Later, LiveSettings, change_admission
from pyspark_commitlog.gateway.network.limits.admission import Admission, AdmissionLimits
from pyspark_commitlog.storage import LogManager, Owner, alter_broker_settings, alter_own_settings
from tests.support.waiting import soon

ADDRESS = "10.0.0.7"


class Names:
    """DNS with one name, which may be away."""

    def __init__(self) -> None:
        self.is_there = False

    def find(self, host: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        if not self.is_there:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ADDRESS, 0))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made.find)
    return made


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    with LogManager.open_or_make(str(tmp_path)) as made:
        made.create_topic("t", partitions=1)
        yield made


@pytest.fixture
def settings(manager: LogManager, tmp_path: Path) -> Iterator[LiveSettings]:
    made = LiveSettings(GatewayConfig(), LogManager.open(str(tmp_path)))
    yield made
    made.stop()


class Applying:
    """Applies changes as the gateway does, and keeps them."""

    def __init__(self) -> None:
        self.admission = Admission(AdmissionLimits())
        self.changes: list[Change] = []

    def __call__(self, change: Change) -> Later:
        self.changes.append(change)
        return change_admission(self.admission, change.config)


def alter(manager: LogManager, **given: str) -> None:
    changes = {name.replace("_", "."): value for name, value in given.items()}
    alter_own_settings(manager, Owner.NODE, "1", changes, lambda _: None)


def test_a_name_that_has_no_address_for_a_moment_gets_its_limit_later(
    settings: LiveSettings, manager: LogManager, names: Names
) -> None:
    settings.listen(applying := Applying())
    alter(manager, max_connections_per_ip_overrides="log.example.com:0")
    settings.look()
    assert applying.admission.refuses(ADDRESS) is None
    names.is_there = True
    settings.look_up()
    assert applying.admission.refuses(ADDRESS) == "max.connections.per.ip"
    settings.look()
    assert len(applying.changes) == 2  # once when it began to listen


def test_other_limits_are_in_force_while_a_name_has_no_address(
    settings: LiveSettings, manager: LogManager, names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    settings.listen(applying := Applying())
    names.is_there = True
    alter(manager, max_connections_per_ip_overrides="log.example.com:0")
    settings.look()
    names.is_there = False
    alter(manager, max_connections_per_ip_overrides="other.example.com:9", max_connections="1")
    settings.look()
    assert applying.admission.refuses("10.0.0.8") is None
    assert applying.admission.refuses("10.0.0.9") == "max.connections"
    applying.admission.left("10.0.0.8")
    assert applying.admission.refuses(ADDRESS) == "max.connections.per.ip"  # the old one
    assert "other.example.com has no address" in caplog.text


class SlowNames:
    """Answers with the address of a name only when it may."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer = Event(), Event()

    def find(self, *_: object, **__: object) -> list[tuple[Any, ...]]:
        self.is_asked.set()
        assert self.may_answer.wait(300)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (ADDRESS, 0))]


@pytest.fixture
def slow_names(settings: LiveSettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowNames]:
    """``settings`` stop after it, so that no thread of theirs still waits then."""
    made = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", made.find)
    yield made
    made.may_answer.set()


def test_no_change_waits_for_a_slow_name_server(
    settings: LiveSettings, manager: LogManager, slow_names: SlowNames
) -> None:
    settings.listen(applying := Applying())
    alter(manager, max_connections_per_ip_overrides="log.example.com:0")
    looking = Thread(target=settings.look)
    looking.start()
    assert slow_names.is_asked.wait(30)
    alter(manager, max_connections="1")
    settings.look()
    assert [applying.admission.refuses(each) for each in (ADDRESS, ADDRESS)] == [None, "max.connections"]
    slow_names.may_answer.set()
    looking.join(30)
    applying.admission.left(ADDRESS)
    assert applying.admission.refuses(ADDRESS) == "max.connections.per.ip"  # with the limits of both changes
    assert applying.admission.refuses("10.0.0.8") is None
    assert applying.admission.refuses("10.0.0.9") == "max.connections"


def test_the_thread_that_checks_for_changes_does_not_wait_for_a_slow_name_server(
    settings: LiveSettings, manager: LogManager, slow_names: SlowNames
) -> None:
    settings.listen(Applying())
    settings.start()
    alter(manager, max_connections_per_ip_overrides="log.example.com:0")
    assert slow_names.is_asked.wait(30)
    alter(manager, max_connections="1")
    soon(lambda: settings.config.max_connections == 1)


def test_topics_are_opened_with_new_settings_once_though_a_name_is_tried_again(
    settings: LiveSettings, manager: LogManager, names: Names
) -> None:
    settings.listen(applying := Applying())
    alter(manager, max_connections_per_ip_overrides="log.example.com:0")
    alter_broker_settings(manager, {"log.retention.ms": "1000000"})
    for _ in range(3):
        settings.look()
        settings.look_up()
    assert [[*each.topics] for each in applying.changes] == [[], ["t"]]


def test_a_change_that_could_not_be_applied_is_applied_by_the_next_look(
    settings: LiveSettings, manager: LogManager
) -> None:
    settings.listen(applying := Applying())

    def fail(_: Change) -> None:
        raise OSError("too many open files")

    settings._on_change = fail
    alter(manager, max_connections="0")
    with pytest.raises(OSError, match="too many open files"):
        settings.look()
    settings._on_change = applying
    settings.look()
    assert applying.admission.refuses(ADDRESS) == "max.connections"


def test_what_no_name_may_be_has_no_address() -> None:
    with pytest.raises(OSError, match=r"a\.\.b has no address"):
        limits_of_addresses({"a..b": 1})
