"""The protocol of Kafka 0.7 on a port of its own, over a log directory of 0.7.

:class:`PositionGateway` is the server, :class:`PositionGatewayConfig` its settings. ``answers`` carries out requests,
``registrations`` enters the broker in ZooKeeper. Of the gateway's other rooms it uses ``network``, ``cluster`` and
``threads``. It needs no extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .config import PositionGatewayConfig as PositionGatewayConfig
    from .server import PositionGateway as PositionGateway
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "config": ["PositionGatewayConfig"],
            "server": ["PositionGateway"],
        },
    )
