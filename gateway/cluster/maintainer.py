"""Maintainer: which of several gateways looks after the directory that they share.

The first one that asks does, until its session ends. It need not be the controller: a gateway may be set to maintain
nothing.
"""

from __future__ import annotations

import logging

from ...registry import NodeExistsError, Registry, register
from ...storage import LogStoreError

MAINTAINER = "/commitlog/maintainer"

logger = logging.getLogger(__name__)


def claim_maintenance(registry: Registry, node: int) -> bool:
    """Returns whether this node maintains the directory from now on; False also while the registry is out of reach."""
    try:
        register(registry, MAINTAINER, b"%d" % node)
    except NodeExistsError:
        return False
    except (LogStoreError, OSError) as error:
        logger.warning("it is unknown which node maintains the directory, so this one waits: %s", error)
        return False
    return True
