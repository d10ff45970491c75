"""A topic's table and the tail of its log as one DataFrame: rows of the table, then what the table does not have yet.

``next_offsets`` is what a commit of the table records: the next offset of each partition. ``seam`` finds it for one
version of a table, ``plan`` compares it with the log, ``newest`` joins the newest record of each key, and
``topic_table`` is what users call.
"""
