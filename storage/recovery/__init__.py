"""Turns the files of a partition into a log: its segments, its producers and its leader epochs, even after a crash.

``loader`` opens a log for a writer, ``view`` for a reader. ``segment_recovery`` checks and cuts a segment.
``producer_state_manager`` and ``leader_epochs`` are Kafka's ProducerStateManager and LeaderEpochFileCache.
"""
