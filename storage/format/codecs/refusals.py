"""The errors for streams that do not decompress, or that decompress to too much."""

from __future__ import annotations

from typing import NoReturn

from ...errors import DecompressedSizeError, InvalidRecordError


def refuse(codec: str, why: object) -> NoReturn:
    """Raises InvalidRecordError for a stream that is cut off or damaged."""
    raise InvalidRecordError(f"the {codec} stream does not decompress: {why}")


def too_large(codec: str, limit: int) -> NoReturn:
    """Raises DecompressedSizeError for a stream that holds more than ``limit`` bytes."""
    raise DecompressedSizeError(
        f"the {codec} stream holds more than the {limit} bytes allowed: raise max.decompressed.bytes if you trust the "
        "log (control batches have a limit of their own)"
    )
