"""Writing a partition: :class:`Log`, its parts, and the locks of a partition.

A log checks what is appended (``checks``) and writes it (``log_end``), in one segment after another (``rolling``).
``bounds`` knows where it begins, and cuts its end off; ``durability`` what of it is on disk; ``sharing`` what other
processes did to it. Each part needs a view of the log, not the log. ``plain_appends`` writes many batches at once,
``replica`` appends those of a broker's log, ``forwarding`` prepares them for a log with offsets of its own.
"""
