"""The program that runs a command against a server."""

from __future__ import annotations

import sys

import pytest

from tests.gateway.suites.__main__ import main

PROGRAM = """\
import os, pathlib, sys
from confluent_kafka.admin import AdminClient, NewTopic
assert os.environ["BROKERS"] == sys.argv[1]
topics = pathlib.Path(os.environ["KAFKA_PATH"], "bin", "kafka-topics.sh").read_text()
assert "TopicCommand" in topics
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
admin.create_topics([NewTopic("new")])["new"].result(30)
sys.exit(len(admin.list_topics("new", timeout=30).topics["new"].partitions))
"""


@pytest.mark.slow
@pytest.mark.parametrize("server", ["gateway", pytest.param("kafka", marks=pytest.mark.only_all)])
def test_a_command_finds_the_server_and_says_how_it_ended(server: str) -> None:
    assert main([server, "num.partitions=3", "--", sys.executable, "-c", PROGRAM, "{}"]) == 3
