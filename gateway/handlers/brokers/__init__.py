"""Features and settings of brokers that the gateway does not have: moving replicas, ACLs, names of settings.

The answers are those of a single broker of Kafka 3.9.1 without an authorizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .acls import (
        create_acls as create_acls,
        created_acls as created_acls,
        delete_acls as delete_acls,
        deleted_acls as deleted_acls,
        describe_acls as describe_acls,
        described_acls as described_acls,
    )
    from .of_node import NodeSetting as NodeSetting, node_settings as node_settings
    from .replicas import (
        alter_reassignments as alter_reassignments,
        alter_replica_log_dirs as alter_replica_log_dirs,
        check_replicas as check_replicas,
        elect_leaders as elect_leaders,
        list_reassignments as list_reassignments,
        refused_elections as refused_elections,
        refused_list as refused_list,
        refused_moves as refused_moves,
        refused_reassignments as refused_reassignments,
    )
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "acls": ["create_acls", "created_acls", "delete_acls", "deleted_acls", "describe_acls", "described_acls"],
            "of_node": ["NodeSetting", "node_settings"],
            "replicas": [
                "alter_reassignments",
                "alter_replica_log_dirs",
                "check_replicas",
                "elect_leaders",
                "list_reassignments",
                "refused_elections",
                "refused_list",
                "refused_moves",
                "refused_reassignments",
            ],
        },
    )
