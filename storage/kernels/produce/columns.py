"""The columns of the tables, for the kernels and for callers that must not import numba.

Numba compiles a kernel again only if the kernel's own file has changed: a change here needs one of ``requests``,
``answers`` and ``runs`` too.
"""

from __future__ import annotations

FRAME_BYTES_MAX = 64 << 10  # larger requests are counted as they arrive, so they are not plain
FRAME_BYTES_MIN = 14
BATCHES_MAX = 64  # of a request
TOPIC_BYTES_MAX = 249
ID_BYTES_MAX = 1_000  # of a transactional id
HEADER_BYTES = 61  # of a batch
TRANSACTIONAL = 16  # the bit of a batch's attributes
LATEST = 2**63 - 1
FLEXIBLE_FROM = 9
ZSTD, ZSTD_FROM = 4, 7  # the codec, and the first version of Produce that may have it

# A connection. The caller sets the first three.
START, END, FRAMES_MAX = 0, 1, 2  # its bytes, and the number of requests that it may have now
FRAME_FIRST, FRAME_STOP = 3, 4  # its requests; the caller lowers the second one to those that were appended
STOP, STATE = 5, 6  # the end of the last request found, and why the search stopped
NAME_AT, NAME_BYTES, NUMBER = 7, 8, 9  # the partition, if it is missing in the table; NAME_BYTES 0: it is not
OUT, OUT_STOP = 10, 11  # its answers
CONNECTION_FIELDS = 12
PARTIAL, OTHER, FULL = 0, 1, 2  # STATE: no further whole request; a request that is not plain; no room for more

# A request
FRAME_END, VERSION, CORRELATION, BATCH_FIRST, BATCH_STOP = 0, 1, 2, 3, 4
ID_AT, ID_BYTES = 5, 6  # the transactional id, if its batches are transactional; ID_BYTES 0: they are not
ACKS = 7  # 0: it has no answer
FRAME_FIELDS = 8

# A batch. The caller sets OFFSET and LOG_START, before it has answers encoded or in these.
PART, AT, SIZE, RECORDS, MAX_TIMESTAMP, PRODUCER, EPOCH, SEQUENCE, CRC = range(9)
TOPIC_AT, TOPIC_BYTES = 9, 10
OPENS = 11  # in the first batch of a topic, the topic's batches in the request; in others 0
OFFSET, LOG_START = 12, 13
CODEC = 14  # 0: not compressed
SMALLEST = 15  # the smallest time of its records, ms; of one that is not compressed
ANSWER_AT = 16  # where its offset is among the answers to its connection, if it has one
IS_WHOLE = 17  # whether its checksum is right; set by the caller, before it has batches taken
BATCH_FIELDS = 18

# A partition
P_NUMBER, P_TOPIC_BYTES, BATCH_BYTES_MAX, NEEDS_KEYS, BEFORE_MS, AFTER_MS = range(6)
CODECS = 6  # a bit for each codec whose batches the partition stores unchanged
PARTITION_FIELDS = 7
