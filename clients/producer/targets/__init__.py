"""The targets of a producer: a log directory, a cluster on today's wire, brokers on the wires of 0.8 and 0.7.

:func:`open_target` opens what the settings name. ``port`` is the interface of all targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .opening import open_target as open_target
    from .port import (
        ANY as ANY,
        BrokerPartition as BrokerPartition,
        Failed as Failed,
        RecordSet as RecordSet,
        Target as Target,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "opening": ["open_target"],
            "port": ["ANY", "BrokerPartition", "Failed", "RecordSet", "Target"],
        },
    )
