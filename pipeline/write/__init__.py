"""Writing from Spark: the foreachBatch sink, ``df.write`` and ``writeStream``, each write visible as a whole or not.

``targets`` has the topics that are written, ``task`` the code of a worker, ``kept_writers`` the driver's writers,
``exactly_once/`` the progress of queries, compared with their checkpoints, and ``publication/`` how rows become visible
in a log directory or on an object store.
"""
