"""Key filters: Bloom filters that say whether a closed segment may have a record with a key.

A filter lies beside the files of its segment, as ``.keyfilter``, which Kafka ignores. ``filter_file`` is its format,
``making`` makes one, ``reading`` reads it, and says whether it is of the segment as it is now.
"""
