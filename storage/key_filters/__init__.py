"""Key filters: Bloom filters that say whether a closed segment may have a record with a key.

``filter_file`` is the format of a file of them, ``files`` knows which file has the filter of a segment, ``making``
makes a filter, and ``reading`` asks those that are of the segments as they are now.
"""
