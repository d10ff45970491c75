"""A topic's table and the tail of its log as one DataFrame: the table's rows, then the records after them.

``next_offsets`` has the next offset of each partition, which a commit of the table records. ``seam`` finds these
offsets for one version of a table, ``plan`` compares them with the log, ``newest`` joins the newest record of each key,
and users call ``topic_table``.
"""
