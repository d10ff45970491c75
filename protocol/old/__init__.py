"""Bodies of requests and answers in versions older than kio has, for clients of Kafka 0.8 to 0.10.

``shapes`` creates their classes; ``records``, ``offsets``, ``admin`` and ``acls`` have them by subject.
"""
