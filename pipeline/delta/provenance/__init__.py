"""What a table records of where its rows came from: how far they reach in the log, and how values were decoded.

``next_offsets`` is what a commit records, ``commits`` finds the newest of them, ``table_serde`` reads the properties,
and ``other_log`` is the error for rows of another log.
"""
