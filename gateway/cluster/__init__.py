"""Several gateways over one log directory: the registry that they share, live nodes, and leaders of partitions.

:class:`Cluster` is what one node knows of the others. ``registration`` enters a node in the registry, ``view`` derives
leaders from the live nodes, ``homes`` finds coordinators, ``maintainer`` chooses the node that maintains the directory,
``host_lock`` finds nodes of this host that have ended, by lock files, ``topic_nodes`` writes topics to ZooKeeper for
old clients, and ``cluster_id`` checks the cluster's id.
"""
