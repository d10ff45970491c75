"""Groups of Kafka 4 (KIP-848) in memory: members, epochs, targets, and the steps by which members come to them.

``heartbeat`` checks what a member sends, and applies it to a ``group``; ``assignors`` compute targets of
``partitions``; ``member`` has the steps. ``classic`` has members that use the classic protocol, ``conversion`` groups
that change their protocol, ``timers`` what members must do in time, ``settings`` what a group may have of its own.
Nothing here knows disks or sockets: ``gateway/groups`` stores what changes.
"""
