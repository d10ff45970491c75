"""What Python programs without Spark use to append to topics, to follow and to search them. Imports no Spark.

``rows`` turns a program's rows into records, ``producer`` appends them, ``follower`` returns records as they arrive,
``finding`` those that satisfy conditions. ``sql`` filters and shapes them by SQL, with values of Avro by ``decoding``,
and ``choice`` chooses by it what to erase.
"""
