"""Writing from Spark: the foreachBatch sink and ``df.write``, each write one transaction.

``targets`` says which topics are written, ``task`` is what a worker does, ``kept_writers`` are the driver's;
``exactly_once/`` remembers how far a query got.
"""
