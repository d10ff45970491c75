"""The data source's reading half: ``spark.read`` and ``spark.readStream``, and ``read_table`` without Spark.

``options`` parses what a user asks for, ``task_ranges`` and ``rate_limits`` divide it among tasks and micro-batches,
``batch`` and ``stream`` are Spark's readers, ``task`` is what a worker does.
"""
