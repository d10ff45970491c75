"""The operation that makes key filters, as ``maintenance`` runs the others: over many partitions, with their reports.

``partitions`` is the operation, ``partition`` brings the filters of one log up to date, ``packing`` decides which of
them are in one file. The filters themselves are in ``key_filters``.
"""
