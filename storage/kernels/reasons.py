"""Why a record does not decode: what the kernels say, and who puts it into words (``format/columns.py``)."""

FINE = 0
RECORD_CUT = 1  # the records end before the count is reached, or inside a record
BAD_VARINT = 2
BAD_LENGTH = 3  # a record length below zero or beyond the records
BAD_STRUCTURE = 4  # a field reaches beyond its record
NOT_CONSUMED = 5  # a record is longer than its fields
BAD_HEADER_COUNT = 6
NULL_HEADER_KEY = 7
TRAILING_BYTES = 8  # bytes left behind the last record
NESTED = 9  # legacy: a compressed message inside a wrapper
NO_ROOM = 10  # not the record's fault: the array for keys or that for values is too short
