"""Maintenance of a log on an object store. ``scratch`` copies what has some offsets to this machine as Kafka's files,
so that the operations on files do the work; then segments are put, and a commit puts them in the place of the old ones.
"""
