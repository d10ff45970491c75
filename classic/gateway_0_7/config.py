"""PositionGatewayConfig: where the gateway of 0.7 listens, by the names of 0.7.2, and the settings of its logs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ...storage import (
    ANYTHING,
    BOOLEAN,
    INT,
    STRING,
    Address,
    Between,
    InvalidConfigError,
    Key,
    did_you_mean,
    is_loopback,
    keys_of,
)
from ..log_0_7.settings import PositionLogSettings

PORT = 6667


def _key(name: str, kind: Any, default: Any, bounds: Any, doc: str) -> Any:
    return field(default=default, metadata={"key": Key(name, kind, default, bounds, doc)})


# fmt: off
@dataclass(frozen=True)
class PositionGatewayConfig:
    """The settings of a gateway of 0.7; creating one with a bad value raises InvalidConfigError."""

    hostname: str = _key("hostname", STRING, "127.0.0.1", ANYTHING,
        "Where the gateway listens. 0.7 has neither TLS nor logins.")
    port: int = _key("port", INT, PORT, Between(0, 65535),
        "The port; 0: a free one.")
    broker_id: int = _key("brokerid", INT, 0, Between(0),
        "The id of this broker in ZooKeeper; each has its own.")
    zk_connect: str = _key("zk.connect", STRING, "", ANYTHING,
        "The ZooKeeper that lists the broker and its topics, such as h1:2181,h2:2181/chroot; empty: none.")
    zk_session_timeout_ms: int = _key("zk.sessiontimeout.ms", INT, 6000, Between(1),
        "ZooKeeper removes a broker that it has not heard from for this long.")
    threads: int = _key("num.threads", INT, os.cpu_count() or 1, Between(1),
        "Threads that serve connections; default: one per processor.")
    request_bytes_max: int = _key("max.socket.request.bytes", INT, 100 << 20, Between(1),
        "The largest request; the connection of a larger one is closed.")
    send_buffer_bytes: int = _key("socket.send.buffer", INT, 102_400, ANYTHING,
        "The send buffer of a connection; -1: the system's default.")
    receive_buffer_bytes: int = _key("socket.receive.buffer", INT, 102_400, ANYTHING,
        "The receive buffer of a connection; -1: the system's default.")
    insecure_listeners: bool = _key("commitlog.insecure.listeners", BOOLEAN, False, ANYTHING,
        "Whether the gateway may listen for other machines.")
    logs: PositionLogSettings = field(default_factory=PositionLogSettings)
    # fmt: on

    def __post_init__(self) -> None:
        for name, key in keys_of(PositionGatewayConfig).items():
            object.__setattr__(self, name, key.check(getattr(self, name)))
        if not (is_loopback(self.hostname) or self.insecure_listeners):
            raise InvalidConfigError(
                f"hostname = {self.hostname!r}: other machines could connect, and 0.7 has no logins: listen on "
                "127.0.0.1, or set commitlog.insecure.listeners = true"
            )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Returns the config for settings by Kafka's names, including those of the logs.

        Raises InvalidConfigError for a bad value and for an unknown name, with the most similar known one.
        """
        own = {key.name: name for name, key in keys_of(PositionGatewayConfig).items()}
        of_logs = set(PositionLogSettings.names())
        for given in mapping:
            if given not in own and given not in of_logs:
                raise InvalidConfigError(
                    f"unknown setting of the gateway of 0.7: {given}{did_you_mean(given, {*own, *of_logs})}"
                )
        logs = PositionLogSettings.from_mapping({name: mapping[name] for name in mapping if name in of_logs})
        return cls(**{own[name]: mapping[name] for name in mapping if name in own}, logs=logs)

    @staticmethod
    def names() -> list[str]:
        """Kafka's names of the gateway's own settings."""
        return [key.name for key in keys_of(PositionGatewayConfig).values()]

    @property
    def listener(self) -> Address:
        """Where the gateway listens."""
        return Address(self.hostname, self.port)
