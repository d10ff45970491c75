"""The registry: a small tree of nodes that several processes share, as old Kafkas keep it in ZooKeeper.

:class:`Registry` is the interface. :class:`FileRegistry` keeps the nodes in files beside the log,
:class:`ZooKeeperRegistry` in a real ZooKeeper (it needs the extra ``[zookeeper]``); :func:`open_registry` opens one of
them. ``kafka_nodes`` has the paths and contents of Kafka's nodes. From ``storage`` this package uses errors and the
port to files.
"""
