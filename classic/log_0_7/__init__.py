"""The log of Kafka 0.7: offsets are byte positions, files end in ``.kafka``, and there is no index.

Offers :class:`PositionLogDirectory` and :class:`PositionLog` for appends, :class:`PositionLogReader` to read without a
lock, and the message format. Knows nothing of the log of later Kafkas: imports files, kernels, codecs and checksums.
"""
