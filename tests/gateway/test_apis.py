"""The table of requests: every version is served, and ApiVersions says so in the ways that clients ask."""

from __future__ import annotations

import struct

import pytest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.serial import entity_reader

from pyspark_commitlog.gateway.handlers.table import KINDS
from pyspark_commitlog.gateway.server import Gateway
from pyspark_commitlog.protocol.apis import APIS, ApiKey
from pyspark_commitlog.protocol.bodies import answer_class, request_class
from tests.support.gateway import WireClient


def test_every_kind_of_request_in_the_table_has_a_row() -> None:
    assert set(KINDS) == set(APIS) == {int(key) for key in ApiKey}


@pytest.mark.parametrize("key", APIS)
def test_every_version_has_its_bodies_and_they_agree_on_flexible_ones(key: int) -> None:
    api = APIS[key]
    for version in range(api.lowest, api.highest + 1):
        assert request_class(key, version).__flexible__ == (version >= api.flexible_from)
        assert answer_class(key, version).__flexible__ == (version >= api.flexible_from)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_lists_the_table(client: WireClient, version: int) -> None:
    answer = client.ask(18, version, client_software_name="test", client_software_version="1")
    assert {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys} == {
        key: (api.lowest, api.highest) for key, api in APIS.items()
    }


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_version_of_api_versions_to_come_gets_an_answer_of_version_0(client: WireClient, version: int) -> None:
    client.send_frame(struct.pack(">hhi", 18, version, 77) + b"what newer versions have")
    frame = client.receive()
    assert struct.unpack_from(">i", frame) == (77,)
    answer, size = entity_reader(ApiVersionsResponse)(frame, 4)
    assert size + 4 == len(frame)
    assert answer.error_code == 35
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 4)]
    assert client.ask(18, 3, client_software_name="t", client_software_version="1").error_code == 0


def test_every_version_of_every_request_is_answered(gateway: Gateway) -> None:
    """With no topics, groups or resources in it: each version's answer has the fields of that version."""
    for key, api in APIS.items():
        for version in range(api.lowest, api.highest + 1):
            with WireClient(gateway) as client:
                client.ask(key, version, acks=-1, topics=(), endpoint_type=1, producer_id=-1, session_epoch=-1)
