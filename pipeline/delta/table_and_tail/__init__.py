"""A topic's table and the tail of its log as one DataFrame: the table's rows, then the records after them.

``seam`` finds the next offset of each partition for one version of a table, ``plan`` compares these offsets with the
log, ``newest`` joins the newest record of each key, and users call ``topic_table``.
"""
