"""Copies a log between a directory and an object store, both ways: offsets, batches and groups' offsets are kept.

:func:`copy_to_bucket` and :func:`copy_to_directory` copy topics into a log that does not have them. Kafka's own bytes
are copied, including older formats, transactions and compacted topics. ``choosing`` decides which topics are copied,
``new_names`` under which names, and ``groups`` copies what groups committed. Snapshots of an object store have the
same form as those of directories.
"""
