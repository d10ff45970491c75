"""Reading a partition without a lock: :class:`LogReader`, and what it is made of.

``fetch`` is the result of one read, ``aborted`` says which records a reader of committed records must not see,
``follower`` and ``watcher`` follow a log that grows, ``damaged`` reads what is sound in a damaged one.
"""
