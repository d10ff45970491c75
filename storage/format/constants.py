"""Constants of all message formats: positions of length and magic, attribute bits, and values that mean "none".

Nothing in this module may change: these are facts of Kafka's files.
"""

from __future__ import annotations

from enum import IntEnum

# Positions in the first bytes of an entry, the same for every magic.
LENGTH_AT = 8  # i32: the bytes after this field
LOG_OVERHEAD = 12  # offset and length
MAGIC_AT = 16  # i8
HEADER_UP_TO_MAGIC = 17

# Attribute bits. Legacy formats have the codec and, from magic 1 on, the timestamp type.
CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

# How the fields encode "none".
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
NO_OFFSET = -1

INT32_MAX = 2**31 - 1


class Codec(IntEnum):
    """Compression codecs by their number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The meaning of a record's timestamp; the numbers are those of Spark's ``timestampType`` column."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
