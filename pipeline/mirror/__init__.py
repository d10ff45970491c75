"""Mirrors topics between a running Kafka and a log directory, both ways, and between clusters: docs/mirroring.md.

With a log directory, each partition is a task; the caller passes what runs the tasks. Such a mirror keeps no state
except logs and committed offsets: see the modules ``from_kafka`` and ``to_kafka``. Between clusters, threads do the
work (``clients.mirror``); ``between_clusters`` is their command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .between_clusters import (
        BETWEEN_CLUSTERS as BETWEEN_CLUSTERS,
        run_between_clusters as run_between_clusters,
    )
    from .command_line import ROUNDS as ROUNDS, parser as parser
    from .mirrored import Mirrored as Mirrored
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "between_clusters": ["BETWEEN_CLUSTERS", "run_between_clusters"],
            "command_line": ["ROUNDS", "parser"],
            "mirrored": ["Mirrored"],
        },
    )
