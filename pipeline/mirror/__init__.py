"""Mirrors topics between a running Kafka and a log directory, both ways: docs/mirroring.md.

Each partition is a task; the caller passes what runs the tasks. A mirror keeps no state except logs and committed
offsets: see the modules ``from_kafka`` and ``to_kafka``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .command_line import ROUNDS as ROUNDS, parser as parser
    from .mirrored import Mirrored as Mirrored
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "command_line": ["ROUNDS", "parser"],
            "mirrored": ["Mirrored"],
        },
    )
