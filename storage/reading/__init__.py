"""Reading a partition without a lock: :class:`LogReader`, and what it is made of.

``view`` is a log as it was when it was opened, ``marks`` its checkpoint entries, ``fetch`` the result of one read,
``slices`` where the batches are for a server that only sends them.
``aborted`` finds the records that readers of committed records must not see. ``follower`` and ``watcher`` follow a log
that grows; ``damaged`` reads the undamaged records of a damaged log, and ``damaged_parts`` lists what such a read
leaves out.
"""
