"""Writing a partition: :class:`Log`, the locks of a partition, and the checks of what is appended.

``durability`` knows what of a log is on disk, ``sharing`` what other processes did to it, ``checks`` refuses what the
topic does not accept, ``checked_appends`` takes the batches of clients with few steps, ``replica`` appends batches of a
broker's log, ``forwarding`` prepares them for a log with offsets of its own.
"""
