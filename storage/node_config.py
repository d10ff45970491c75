"""Settings of gateways and groups that change while a gateway runs, which ``topics.json`` keeps (Kafka 3.9.1, 4.3.1).

Settings of a single listener have names that begin with ``listener.name.``; only the gateway can check these.
"""

from __future__ import annotations

from collections.abc import Mapping

from .config import ANYTHING, INT, STRING, Between, Key

INT32_MAX = 2**31 - 1

MAX_CONNECTIONS = Key("max.connections", INT, INT32_MAX, Between(0),
    "The most connections at once; further ones are closed as soon as they are accepted. They never take more than "
    "three quarters of the files that the process may open.")  # fmt: skip
MAX_CONNECTIONS_PER_IP = Key("max.connections.per.ip", INT, INT32_MAX, Between(0),
    "The most connections at once from one address.")  # fmt: skip
MAX_CONNECTIONS_PER_IP_OVERRIDES = Key("max.connections.per.ip.overrides", STRING, "", ANYTHING,
    "Other limits for some addresses or names, such as log.example.com:1000,127.0.0.1:2000.")  # fmt: skip
MAX_CONNECTION_CREATION_RATE = Key("max.connection.creation.rate", INT, INT32_MAX, Between(1),
    "The most connections that are accepted per second; more wait.")  # fmt: skip

NODE_KEYS: Mapping[str, Key] = {
    key.name: key
    for key in (
        MAX_CONNECTIONS,
        MAX_CONNECTIONS_PER_IP,
        MAX_CONNECTIONS_PER_IP_OVERRIDES,
        MAX_CONNECTION_CREATION_RATE,
    )
}

SESSION_TIMEOUT_MS = Key("consumer.session.timeout.ms", INT, 45_000, Between(1),
    "A member of the group that sends nothing for this long is removed.")  # fmt: skip
HEARTBEAT_INTERVAL_MS = Key("consumer.heartbeat.interval.ms", INT, 5_000, Between(1),
    "How often members of the group send heartbeats.")  # fmt: skip

GROUP_KEYS: Mapping[str, Key] = {key.name: key for key in (SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS)}
