"""Options and findings of a dump: the flags of ``kafka-dump-log``, and its report of inconsistencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..format.constants import INT32_MAX
from ..format.tables import Int64s

PayloadDecoder = Literal[
    "string", "offsets", "transaction-log", "share-group-state", "cluster-metadata", "remote-log-metadata"
]
DumpFormat = Literal["kafka", "4.0", "3.0", "2.8", "legacy", "json"]

MAX_MESSAGE_SIZE = 5 * 1024 * 1024


@dataclass(frozen=True)
class DumpOptions:
    """The flags of ``kafka-dump-log``, with its defaults; ``DumpLogSegments`` documents each."""

    deep_iteration: bool = False  # records too, not only batches
    print_data_log: bool = False  # keys and values too; implies deep_iteration
    skip_record_metadata: bool = False  # show only key and value of each record
    decoder: PayloadDecoder = "string"  # any other implies print_data_log
    max_bytes: int = INT32_MAX  # of a .log, from its beginning
    verify_index_only: bool = False  # compare an index with its log without printing its entries
    index_sanity_check: bool = False  # only make the checks of a broker before it uses an index
    max_message_size: int = MAX_MESSAGE_SIZE  # bytes of the log read to find the batch of an index entry
    format: DumpFormat = "kafka"

    @property
    def prints_contents(self) -> bool:
        return self.print_data_log or self.decoder != "string"

    @property
    def prints_records(self) -> bool:
        return self.deep_iteration or self.prints_contents


Pairs = dict[str, list[tuple[int, int]]]  # by path


@dataclass
class DumpFindings:
    """Inconsistencies in the files dumped so far, reported after all of them in the words of Kafka's tool.

    None of them proves damage: compaction leaves gaps, and releases before 3.0 index other offsets.
    """

    remarks: list[str] = field(default_factory=list)  # files that were skipped or are invalid
    index_mismatches: Pairs = field(default_factory=dict)  # (indexed offset, last offset of the batch there)
    time_mismatches: Pairs = field(default_factory=dict)  # (indexed, largest timestamp of the batch)
    times_out_of_order: Pairs = field(default_factory=dict)  # (indexed, indexed before it)
    offsets_not_found: Pairs = field(default_factory=dict)  # (indexed offset, last offset of the batch; -1 none)
    gaps: dict[str, list[Int64s]] = field(default_factory=dict)  # runs of (offset, the next one), shape (n, 2)
    in_words_of_4: bool = False  # otherwise, the words of 3.9

    def lines(self) -> Iterator[str]:
        """Yields the report, as ``DumpLogSegments`` does: a file's last mismatch first, and before 4.0 its last gap."""
        yield from self.remarks
        for path, pairs in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {index}, log offset: {log}" for index, log in reversed(pairs))
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}" for index, log in pairs)
        for path, pairs in self.times_out_of_order.items():
            yield f"Found out of order timestamp in :{path}"
            yield from (f"  Index timestamp: {now}, Previously indexed timestamp: {before}" for now, before in pairs)
        for path, pairs in self.offsets_not_found.items():
            yield f"The following indexed offsets are not found in {f':{path}' if self.in_words_of_4 else 'the log.'}"
            yield from (f"Indexed offset: {index}, found log offset: {log}" for index, log in pairs)
        for path, runs in self.gaps.items():
            yield f"Non-consecutive offsets in {path}"
            found = np.concatenate(runs)
            in_order = found if self.in_words_of_4 else found[::-1]
            yield from (f"  {first} is followed by {second}" for first, second in in_order.tolist())

    def add_gaps(self, path: str, before: int | None, offsets: Int64s) -> None:
        """Records the gaps in ``offsets``; ``before`` is the offset that precedes them, None at the beginning."""
        chain = offsets if before is None else np.concatenate(([before], offsets))
        at = np.flatnonzero(np.diff(chain) != 1)
        if len(at):
            self.gaps.setdefault(path, []).append(np.stack((chain[at], chain[at + 1]), axis=1))
