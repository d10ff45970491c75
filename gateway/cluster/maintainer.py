"""Maintainer: which of several gateways maintains the directory that they share.

It is the first one that asks, until its session ends. It need not be the controller, because a gateway may be set to
maintain nothing.
"""

from __future__ import annotations

import logging

from ...registry.errors import NodeExistsError
from ...registry.operations import register
from ...registry.port import Registry
from ...storage import LogStoreError

MAINTAINER = "/commitlog/maintainer"

logger = logging.getLogger(__name__)


def claim_maintenance(registry: Registry, node: int) -> bool:
    """Returns whether this node maintains the directory from now on; False if the registry cannot be reached."""
    try:
        register(registry, MAINTAINER, b"%d" % node)
    except NodeExistsError:
        return False
    except (LogStoreError, OSError) as error:
        logger.warning("the registry does not show which node maintains the directory, so this one waits: %s", error)
        return False
    return True
