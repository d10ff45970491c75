"""No command shows a secret of an object store, whatever the store answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage import LogManager
from tests.cli.in_process import commitlog
from tests.support.ports import free_port
from tests.support.stores.telltale import SHOWN, Telltale, reach

URL = "s3://logs/test"
COMMANDS = [
    "topics --list --log-dir {url}",
    "topics --create --topic t --log-dir {url}",
    "configs --describe --topic t --log-dir {url}",
    "offsets --topic t --log-dir {url}",
    "delete-records --offset-json-file {work}/offsets.json --log-dir {url}",
    "describe --topic t --log-dir {url}",
    "cat --topic t -e --log-dir {url}",
    "produce --topic t --log-dir {url}",
    "verify --log-dir {url}",
    "retain --log-dir {url}",
    "compact --log-dir {url}",
    "maintain --log-dir {url}",
    "rebuild-index --log-dir {url}",
    "recover --log-dir {url}",
    "snapshot --to {work}/snapshot --log-dir {url}",
    "restore --from {work}/log --log-dir {url}",
    "copy --from {work}/log --to {url}",
    "copy --from {url} --to {work}/copy",
    "fs-check --log-dir {url}",
    "groups --list --log-dir {url}",
    "transactions list --log-dir {url}",
    "metrics --log-dir {url}",
    "dump-log --files {url}/t-0/00000000000000000000.log",
]


@pytest.fixture(params=[(403, "AccessDenied"), (400, "InvalidToken"), (500, "InternalError"), None], ids=str)
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of a server that repeats all it is sent; None: of nobody."""
    if request.param is None:
        yield free_port()
    else:
        with Telltale(*request.param) as server:
            yield server.port
            assert server.requests > len(COMMANDS) / 2


def test_no_command_shows_what_a_store_was_sent(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reach(monkeypatch, port)
    (tmp_path / "offsets.json").write_text('{"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}')
    with LogManager.open(str(tmp_path / "log"), create=True) as manager:
        manager.create_topic("t", partitions=1)
    for command in COMMANDS:
        done = commitlog(*command.format(url=URL, work=tmp_path).split())
        assert done.code == 1, f"{command}: {done.stderr}"
        for text in (done.stdout, done.stderr, caplog.text):
            assert not [secret for secret in SHOWN if secret in text], f"{command}: {text}"
