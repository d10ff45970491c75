"""Writing a partition: :class:`Log`, its locks, and the checks of what is appended.

``shared_log`` lets several processes write one log, ``record_checks`` and ``batch_checks`` refuse what the topic does
not take, ``replica`` appends what another log holds.
"""
