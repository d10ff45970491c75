"""A stream that begins in a topic's table and continues in its log: the option ``table`` of the streaming source.

Its position is an offset of the log in each partition, whether rows come from the table or the log: the rows of the
table have the offsets of their records. So a checkpoint does not mention the table, whose files may change between
micro-batches. ``table_files`` reads one version of the table, ``tail_rows`` makes rows of records, and ``reader`` is
Spark's reader. Imports no session of Spark: the data source has none.
"""
