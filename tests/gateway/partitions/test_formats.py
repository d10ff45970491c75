"""Which format topics are written in: ``message.format.version`` is followed only where that is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage import InvalidConfigError
from tests.support.gateway import WireClient, create_topic, fetch_fields, produce_fields, serving, set_config
from tests.support.logs.building import batch
from tests.support.stores.served import ServedStores

KEY = "message.format.version"
TOPIC = "t"


def written(client: WireClient, version: int = 8) -> int:
    """Produces a record; returns the magic of the newest one in the log."""
    answer = client.ask(0, version, **produce_fields(TOPIC, batch(b"v").tobytes()))
    part = answer.responses[0].partition_responses[0]
    assert not part.error_code
    found = client.ask(1, 4, **fetch_fields(TOPIC, part.base_offset)).responses[0].partitions[0].records
    return int(bytes(found)[16])


def shown(client: WireClient) -> str:
    """The setting, as DescribeConfigs shows it."""
    asked = {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": [KEY]}
    value: str = client.ask(ApiKey.DESCRIBE_CONFIGS, 1, resources=[asked]).results[0].configs[0].value
    return value


@pytest.fixture(params=["directory", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "directory":
        return str(tmp_path / "log")
    ServedStores(monkeypatch).create("s3://memory/logs")
    return "s3://memory/logs"


@pytest.mark.parametrize("version", ["0.8.2", "0.10.0.0", "0.10.2-IV0"])
def test_the_setting_is_taken_and_ignored_with_a_line_in_the_log(
    place: str, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    with serving(place) as gateway, WireClient(gateway) as client:
        create_topic(client, TOPIC)
        assert written(client) == 2
        set_config(client, TOPIC, KEY, version)
        assert [written(client) for _ in range(3)] == [2] * 3
        assert shown(client) == version
    lines = [each for each in caplog.messages if KEY in each]
    assert len(lines) == 1
    assert lines[0].startswith(f"topic {TOPIC}: {KEY} = {version} is ignored")


@pytest.mark.parametrize("set_by", ["creation", "change"])
@pytest.mark.parametrize(("protocol", "magic"), [("0.11.0", 1), ("2.8", 1), ("2.8-IV1", 1), ("3.0", 2), ("3.9-IV0", 2)])
def test_the_setting_is_followed_below_3_0(tmp_path: Path, protocol: str, magic: int, set_by: str) -> None:
    with serving(tmp_path / "log", inter_broker_protocol_version=protocol) as gateway, WireClient(gateway) as client:
        configs = {"message_format_version": "0.10.0"}
        create_topic(client, TOPIC, **(configs if set_by == "creation" else {}))
        if set_by == "change":
            set_config(client, TOPIC, KEY, "0.10.0")
        assert written(client) == magic


def test_a_topic_that_is_written_in_the_newest_format_is_not_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path / "log") as gateway, WireClient(gateway) as client:
        create_topic(client, TOPIC, message_format_version="0.11.0")
        assert written(client) == 2
    assert KEY not in caplog.text


def test_what_was_stored_in_an_old_format_is_read_after_it_is_ignored(tmp_path: Path) -> None:
    with serving(tmp_path / "log", inter_broker_protocol_version="2.8") as gateway, WireClient(gateway) as client:
        create_topic(client, TOPIC, message_format_version="0.10.0")
        assert written(client) == 1
    with serving(tmp_path / "log") as gateway, WireClient(gateway) as client:
        assert written(client) == 2
        for version in (4, 11):
            found = client.ask(1, version, **fetch_fields(TOPIC, 0)).responses[0].partitions[0].records
            assert bytes(found)[16] == 1


@pytest.mark.parametrize("version", ["4.0", "0.6", "x"])
def test_a_version_that_no_registry_knows_is_refused(version: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"0\.7 to 3\.9"):
        GatewayConfig(inter_broker_protocol_version=version)
