"""The log of Kafka 0.7: offsets are byte positions, files end in ``.kafka``, and there is no index.

Offers :class:`PositionLogDirectory` and :class:`PositionLog` for appends, :class:`PositionLogReader` to read without a
lock, :class:`PositionTopics` for the topics of a directory, and the message format. Of the rooms of ``storage`` it
imports files, kernels, codecs and checksums; only ``search`` imports one that knows the log of today, ``finding``.
"""
