"""The registry: a small tree of nodes that several processes share, as old Kafkas keep it in ZooKeeper.

:class:`Registry` is the interface. :class:`FileRegistry` keeps the nodes in files beside the log,
:class:`ZooKeeperRegistry` in a real ZooKeeper (it needs the extra ``[zookeeper]``); :func:`open_registry` opens one of
them. ``kafka_nodes`` has the paths and contents of Kafka's nodes. From ``storage`` this package uses errors and the
port to files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from . import kafka_nodes as kafka_nodes
    from .errors import (
        BadVersionError as BadVersionError,
        ConnectionLossError as ConnectionLossError,
        InvalidPathError as InvalidPathError,
        NodeExistsError as NodeExistsError,
        NoNodeError as NoNodeError,
        NotEmptyError as NotEmptyError,
        RegistryError as RegistryError,
        SessionExpiredError as SessionExpiredError,
    )
    from .files import FileRegistry as FileRegistry
    from .opening import open_registry as open_registry
    from .operations import (
        children_if_any as children_if_any,
        delete_tree as delete_tree,
        discard as discard,
        put as put,
        register as register,
        tree_of as tree_of,
        walk as walk,
    )
    from .port import (
        ANY_VERSION as ANY_VERSION,
        Change as Change,
        Listener as Listener,
        Node as Node,
        Registry as Registry,
        SessionState as SessionState,
        Watch as Watch,
    )
    from .zookeeper import ZooKeeperRegistry as ZooKeeperRegistry
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submodules=["kafka_nodes"],
        submod_attrs={
            "errors": [
                "BadVersionError",
                "ConnectionLossError",
                "InvalidPathError",
                "NoNodeError",
                "NodeExistsError",
                "NotEmptyError",
                "RegistryError",
                "SessionExpiredError",
            ],
            "files": ["FileRegistry"],
            "opening": ["open_registry"],
            "operations": ["children_if_any", "delete_tree", "discard", "put", "register", "tree_of", "walk"],
            "port": ["ANY_VERSION", "Change", "Listener", "Node", "Registry", "SessionState", "Watch"],
            "zookeeper": ["ZooKeeperRegistry"],
        },
    )
