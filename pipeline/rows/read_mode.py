"""The option ``mode`` of a read."""

from __future__ import annotations

from enum import Enum


class ReadMode(Enum):
    """The treatment of a corrupt batch, or a time that does not fit Spark's timestamps: values of option ``mode``."""

    FAIL_FAST = "failfast"  # raise for both
    DROP_MALFORMED = "dropmalformed"  # skip corrupt batches; raise for a time
    PERMISSIVE = "permissive"  # raise for corrupt batches; read a time as null
