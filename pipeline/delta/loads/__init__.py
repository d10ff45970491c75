"""Batch loads of a topic to its end: into a Delta table, or into a folder of Parquet files with a file of offsets.

``topic_log`` has the logs that a load reads, in a log directory or at brokers; ``topic_load`` finds where it begins and
ends.
"""
