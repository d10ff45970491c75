"""Consumer groups of Kafka 0.7 to 0.10: members register in ZooKeeper, and each one computes the assignment.

:class:`GroupMember` is a member of a group on behalf of a :class:`Holder`, which reads the partitions. ``assignment``
has the rules; ``registered`` reads the members and partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .assignment import Partition as Partition, Strategy as Strategy, Stream as Stream, assign as assign
    from .member import GroupMember as GroupMember, GroupSettings as GroupSettings, Holder as Holder
    from .registered import Registered as Registered, consumer_id as consumer_id
    from .subscription import Subscription as Subscription
else:
    __getattr__, __dir__, __all__ = lazy_loader.attach(
        __name__,
        submod_attrs={
            "assignment": ["Partition", "Strategy", "Stream", "assign"],
            "member": ["GroupMember", "GroupSettings", "Holder"],
            "registered": ["Registered", "consumer_id"],
            "subscription": ["Subscription"],
        },
    )
