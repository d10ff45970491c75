"""Rebuilds indexes and snapshots from the logs alone.

The offset index and time index of a segment need only its log: :func:`rebuild_segment`. Transaction indexes and
snapshots need the producer state, which is carried from segment to segment: :func:`rebuild_log`. A large log can be
processed in pieces: :func:`survey_segment` reads a segment, in any process, and :func:`producer_changes` joins the
surveys.

The results equal those of Kafka's own recovery. A valid index may differ from them: a broker restarts the count of
``index.interval.bytes`` when it starts, brokers before 3 wrote one entry per append, and a snapshot lists producers in
any order. An index whose entries are all right, as verification judges them, is kept if it has at least half as many as
a rebuilt one. A snapshot that contains all that the log shows is kept, since it may contain more: producers whose
batches compaction or retention has removed.

Only damage in a log prevents rebuilding from it; damaged logs are reported, and nothing is rebuilt from them.
"""
