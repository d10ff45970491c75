"""Maintenance of a log on an object store.

``scratch`` copies a range of offsets to this machine as Kafka's files, so that the operations on files can process
them; then new segments are put, and a commit replaces the old ones.
"""
