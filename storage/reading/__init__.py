"""Reading a partition without a lock: :class:`LogReader`, and its parts.

``view`` is a log as it was when it was opened, ``marks`` its checkpoint entries, ``fetch`` the result of one read,
``slices`` the positions of batches, for a server that only sends them. ``aborted`` finds the records that readers of
committed records must not see. ``follower`` and ``watcher`` follow a log that grows; ``damaged`` reads the undamaged
records of a damaged log, and ``damaged_parts`` lists the parts that such a read leaves out.
"""
