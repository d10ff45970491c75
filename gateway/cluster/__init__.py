"""Several gateways over one log directory: the registry that they share, live nodes, and leaders of partitions.

:class:`Cluster` is what one node knows of the others. ``registration`` enters a node in the registry, ``view`` derives
leaders from the live nodes, ``homes`` finds coordinators, ``maintainer`` chooses the node that maintains the directory,
``presence`` finds nodes of this host that have ended, ``topic_nodes`` writes topics to ZooKeeper for old clients, and
``cluster_id`` checks the cluster's id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .cluster import Cluster as Cluster
    from .cluster_id import (
        InconsistentClusterIdError as InconsistentClusterIdError,
        check_directory as check_directory,
        find_cluster_id as find_cluster_id,
    )
    from .homes import Homes as Homes
    from .maintainer import claim_maintenance as claim_maintenance
    from .presence import Presence as Presence
    from .registration import (
        OF_0_7 as OF_0_7,
        NodeIdInUseError as NodeIdInUseError,
        OtherBrokersError as OtherBrokersError,
        Registration as Registration,
    )
    from .topic_nodes import TopicNodes as TopicNodes
    from .view import NOBODY as NOBODY, Leader as Leader, View as View
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "cluster": ["Cluster"],
            "cluster_id": ["InconsistentClusterIdError", "check_directory", "find_cluster_id"],
            "homes": ["Homes"],
            "maintainer": ["claim_maintenance"],
            "presence": ["Presence"],
            "registration": ["NodeIdInUseError", "OF_0_7", "OtherBrokersError", "Registration"],
            "topic_nodes": ["TopicNodes"],
            "view": ["Leader", "NOBODY", "View"],
        },
    )
