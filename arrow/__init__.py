"""Records as Python's rows and as Arrow tables, for programs without Spark, and for Spark: imports no Spark.

``producer`` appends rows, ``follower`` returns records as they arrive, ``finding`` those that satisfy conditions;
``rows`` converts between rows and records. ``table`` reads Arrow tables, with the ``columns`` of the data source, and
``batches`` converts between records and Arrow batches. ``sql`` filters and shapes records by SQL, with values of Avro
by ``avro_texts``, and ``choice`` chooses by it what to erase. ``values/`` has Avro, JSON and schema registries.
"""
