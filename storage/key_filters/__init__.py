"""Key filters: Bloom filters that tell whether a closed segment may have a record with a key.

``filter_file`` is the format of a file of filters, ``files`` finds the file with the filter of a segment, ``making``
makes a filter, and ``reading`` reads the filters that match the present segments.
"""
