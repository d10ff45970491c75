"""A log directory: its topics, partitions, settings and checkpoints.

:class:`LogManager` opens one and hands out its logs; ``admin`` creates, alters and deletes topics; ``snapshots/``
copy a directory and restore the copy; ``fs_check`` tests whether a file system keeps its promises. A broker's directory
has no topic settings: ``broker_settings/`` reads them from its KRaft metadata, or from what Kafka's tools print.
"""
