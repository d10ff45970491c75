"""Objects that tasks stage: slices of record batches, and a footer.

::

    slices: each the batches of one partition, one after the other; base offsets from 0 on in the slice, epoch 0;
            only batches of clients have a producer. A slice of a transaction is followed by another one: an empty
            batch with as many offsets, which takes its place if the transaction is aborted
    footer: zlib of JSON {"v", "write", "slices": [{topicId, p, at, len, records, batches, maxTs}],
            "sizes": [[bytes of each batch] of each slice], "crc": CRC-32C of the slices}
    u32 length of the footer | u32 CRC-32C of the footer | "CLSTAGE1"

Readers find slices by the commit. The footer is for reads inside a slice, and for a check of an object that no commit
names. Numbers are big-endian.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import CorruptionError
from ..format.checksums import crc32c
from .commits.fields import Fields
from .stores.port import ObjectStore

FOOTER_BYTES_MAX = 64 << 20  # of JSON
MAGIC = b"CLSTAGE1"
VERSION = 1
END_BYTES = 16 << 10  # bytes at the end of an object that are read at once: footers are rarely longer
TAIL = struct.Struct(">II8s")  # length and CRC-32C of the footer, magic


@dataclass
class FilledSlice:
    """The batches of a partition in the object that is being filled."""

    parts: list[bytes] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # bytes of each batch
    records: int = 0
    max_timestamp: int = -1

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


Slices = Sequence[tuple[tuple[str, int], FilledSlice]]
"""Slices in the order of an object, with topic id and partition of each."""


def rows_of(slices: Slices, number: int) -> Iterator[tuple[tuple[str, int], list[int]]]:
    """Yields the row of each slice of an object, with the columns of a commit's slices.

    ``number``: that of the object in its commit. Positions follow the order of the slices, as in :func:`encode_object`.
    """
    at = 0
    for key, each in slices:
        yield key, [number, at, each.size, each.records, len(each.sizes), each.max_timestamp]
        at += each.size


def encode_object(write: str, slices: Slices) -> bytes:
    """Returns the bytes of an object with these slices."""
    parts = [part for _, each in slices for part in each.parts]
    checksum, at, listed = 0, 0, list[dict[str, Any]]()
    for part in parts:
        checksum = crc32c(part, checksum)
    for (topic_id, partition), each in slices:
        counts = {"records": each.records, "batches": len(each.sizes), "maxTs": each.max_timestamp}
        listed.append({"topicId": topic_id, "p": partition, "at": at, "len": each.size, **counts})
        at += each.size
    content = {"v": VERSION, "write": write, "slices": listed, "crc": checksum}
    content["sizes"] = [each.sizes for _, each in slices]
    footer = zlib.compress(json.dumps(content, separators=(",", ":")).encode())
    return b"".join([*parts, footer, TAIL.pack(len(footer), crc32c(footer), MAGIC)])


class Footer(NamedTuple):
    """The footer of a staged object."""

    write: str
    slices: list[tuple[str, int, int, int]]  # topic id, partition, position, bytes
    sizes: list[list[int]]  # bytes of each batch, by slice
    checksum: int  # CRC-32C of all slices


def read_footer(store: ObjectStore, key: str, size: int) -> Footer:
    """Returns the footer of an object of ``size`` bytes. Raises CorruptionError, with the name, or ObjectStoreError."""
    try:
        if size < TAIL.size:
            raise CorruptionError("ends within its tail")
        data = store.get_range(key, max(0, size - END_BYTES), min(size, END_BYTES))
        length, checksum, magic = TAIL.unpack(data[-TAIL.size :])
        if magic != MAGIC or length > size - TAIL.size:
            raise CorruptionError("has no footer", position=size - TAIL.size)
        start = size - TAIL.size - length
        is_here = length + TAIL.size <= len(data)
        footer = data[-TAIL.size - length : -TAIL.size] if is_here else store.get_range(key, start, length)
        if crc32c(footer) != checksum:
            raise CorruptionError("the footer's checksum does not match", position=start)
        return _decode_footer(footer, start)
    except CorruptionError as error:
        raise error.located(f"{store.url}/{key}") from None


def _decode_footer(footer: memoryview, end: int) -> Footer:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(footer, FOOTER_BYTES_MAX)
    except zlib.error as error:
        raise CorruptionError(f"the footer does not decompress: {error}") from error
    if not unpacking.eof:
        raise CorruptionError("the footer is too large, or cut")
    fields = Fields.of(text)
    slices = [
        (each.topic_id("topicId"), each.integer("p"), each.integer("at"), each.integer("len", 1))
        for each in fields.objects("slices")
    ]
    sizes = fields.values("sizes")
    if not all(map(_are_sizes, sizes)):
        raise fields.wrong("sizes", "lists of sizes")
    if [sum(each) for each in sizes] != [size for *_, size in slices] or sum(map(sum, sizes)) != end:
        raise fields.wrong("sizes", "lists of sizes that fill the slices")
    return Footer(fields.uid("write"), slices, sizes, fields.integer("crc", most=2**32 - 1))


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each > 0 for each in value)
