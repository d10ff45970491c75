"""Changes of configs: what the client that asks for them reads about others."""

from __future__ import annotations

from pyspark_commitlog.gateway import Gateway
from pyspark_commitlog.protocol.apis import ApiKey
from pyspark_commitlog.storage import LogManager
from tests.support.gateway import WireClient

BROKER, SET, INVALID_REQUEST = 4, 0, 42


def test_a_contradiction_to_a_topic_does_not_name_it(gateway: Gateway, client: WireClient) -> None:
    with LogManager.open(gateway.log_dir) as manager:
        manager.create_topic("hidden", partitions=1, configs={"min.compaction.lag.ms": "10"})
    change = {"name": "log.cleaner.max.compaction.lag.ms", "config_operation": SET, "value": "5"}
    asked = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    (found,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[asked], validate_only=True).responses
    assert found.error_code == INVALID_REQUEST
    assert found.error_message.startswith("beside the settings of a topic: min.compaction.lag.ms")
    assert "hidden" not in found.error_message
