"""From files to a log: which segments there are, what a crash left, and what the log knows of producers and epochs.

``loader`` opens a log, ``segment_recovery`` checks and cuts a segment, ``producer_state`` and ``leader_epochs`` are
Kafka's ProducerStateManager and LeaderEpochFileCache.
"""
