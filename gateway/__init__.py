"""The gateway: a server that speaks Kafka's protocol over a log directory, while Spark writes and reads it too.

:class:`Gateway` is the server, :class:`GatewayConfig` its settings. Rooms: ``network/`` has the sockets and knows no
protocol; ``security/`` has logins and rules; ``partitions/`` appends, syncs and finds what others appended;
``groups/`` coordinates consumers, and ``transactions/`` transactional producers; ``cluster/`` knows the other
gateways; ``handlers/`` answer requests; ``threads/`` has threads with timers, ``children/`` processes beside the
server; ``kafka_0_7/`` is a server of its own, for logs and clients of Kafka 0.7. Of ``storage`` it uses what
``storage/__init__.py`` exports. It needs the extra ``[gateway]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .check import CheckConfig as CheckConfig, CheckError as CheckError, check_gateway as check_gateway
    from .config import GatewayConfig as GatewayConfig
    from .kafka_0_7 import PositionGateway as PositionGateway, PositionGatewayConfig as PositionGatewayConfig
    from .listeners import parse_address as parse_address
    from .metrics import GatewayMetrics as GatewayMetrics
    from .metrics_server import serve_metrics as serve_metrics
    from .process import prepare_process as prepare_process
    from .security import UsersFile as UsersFile
    from .server import Gateway as Gateway
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "check": ["CheckConfig", "CheckError", "check_gateway"],
            "config": ["GatewayConfig"],
            "kafka_0_7": ["PositionGateway", "PositionGatewayConfig"],
            "listeners": ["parse_address"],
            "metrics": ["GatewayMetrics"],
            "metrics_server": ["serve_metrics"],
            "process": ["prepare_process"],
            "security": ["UsersFile"],
            "server": ["Gateway"],
        },
    )
