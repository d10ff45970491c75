"""Several gateways over one log directory: the registry that they share, who lives, and who leads a partition.

:class:`Cluster` is one node's sight of the others. ``registration`` has the nodes in the registry, ``view`` the leaders
that follow from who lives, ``homes`` the coordinators, ``maintainer`` which node maintains the directory,
``topic_nodes`` what old clients look for, ``cluster_id`` the id of the cluster.
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
            "registration": ["NodeIdInUseError", "OF_0_7", "OtherBrokersError", "Registration"],
            "topic_nodes": ["TopicNodes"],
            "view": ["Leader", "NOBODY", "View"],
        },
    )
