"""Batch loads of a topic to its end: into a Delta table, or into a folder of Parquet files with a file of offsets.

``topic_log`` is what a load reads, a log directory or brokers; ``topic_load`` finds where it begins and ends.
"""
