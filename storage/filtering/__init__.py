"""The maintenance operation that makes key filters, over many partitions, with reports.

``partitions`` is the operation, ``partition`` updates the filters of one log, ``packing`` decides which of them share a
file. The filters themselves are in ``key_filters``.
"""
