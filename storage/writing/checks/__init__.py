"""What a topic refuses, found without its log: in columns (``records``), in encoded batches (``batches``).

``checked_batch`` finds the same in one client's batch by plain numbers, in any thread. ``old_formats`` checks and
writes message sets of topics whose message format is older than record batches.
"""
