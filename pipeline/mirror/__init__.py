"""Mirrors topics between a running Kafka and a log directory, both ways, and between clusters: docs/mirroring.md.

With a log directory, each partition is a task; the caller passes a function that runs tasks. Such a mirror keeps no
state except logs and committed offsets: see the modules ``from_kafka`` and ``to_kafka``. Between clusters, threads do
the work (``mirror``); ``between_clusters`` is their command line.
"""
