"""The data source's reading half: ``spark.read`` and ``spark.readStream``.

``options`` parses what a user asks for, ``task_ranges`` and ``rate_limits`` divide offsets among tasks and
micro-batches, ``batch`` and ``stream`` have Spark's readers, and ``task`` reads what one task was given.
"""
