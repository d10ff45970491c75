"""Consumer groups of Kafka 0.7 to 0.10: members register in ZooKeeper, and each one computes the assignment.

:class:`GroupMember` is a member of a group on behalf of a :class:`Holder`, which reads the partitions. ``assignment``
has the rules; ``registered`` reads the members and partitions.
"""
