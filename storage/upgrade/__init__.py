"""Turns a log directory of Kafka 0.7 into one of today: each message a record, once, with a table of the positions.

Offers :func:`upgrade_partitions`, which can be killed and run again at any time, and :class:`PositionTable`, which
finds the new offset of an old position. ``forwarding`` has the messages that a broker of 0.7 sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .forwarding import PositionAnswer as PositionAnswer, forwarded_messages as forwarded_messages
    from .position_table import PositionTable as PositionTable
    from .run import UpgradeRun as UpgradeRun, upgrade_partitions as upgrade_partitions
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "forwarding": ["PositionAnswer", "forwarded_messages"],
            "position_table": ["PositionTable"],
            "run": ["UpgradeRun", "upgrade_partitions"],
        },
    )
