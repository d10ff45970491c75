"""Groups of Kafka 4 (KIP-848) in memory: members, epochs, targets, and the steps by which members come to them.

``heartbeat`` checks what a member sends, and applies it to a ``group``; ``assignors`` compute targets of
``partitions``; ``member`` has the steps. Nothing here knows threads, disks or sockets: ``gateway/groups`` stores what
changes, and has the timers.
"""
