"""Partitions of a log on an object store, their appender, and the follower of others' commits."""
