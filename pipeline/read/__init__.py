"""The data source's reading half: ``spark.read`` and ``spark.readStream``.

``options`` parses a user's options, ``task_ranges`` and ``rate_limits`` divide offsets among tasks and micro-batches,
``batch`` and ``stream`` have Spark's readers, and ``task`` reads the range of one task.
"""
