"""One DataFrame of a topic: the rows of its exported table, and those of the log that the table does not have yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from ....arrow.values.serde import Serde, narrowed
from ....storage import InvalidConfigError, LogManager, did_you_mean
from ...locations import table_location
from ...rows.offsets import DataLoss
from ..command.words import TableMode
from ..reload import read_between
from ..table_rows import DELETED, nullable, to_rows
from ..undecodable import REASON, with_reasons
from ..upserts import newest_of_each_key
from .newest import newest_of_both
from .plan import Plan, Span, tail
from .seam import PinnedTable, pinned as pin
from .small_tail import small_tail
from .wanted import Wanted, instant_ms

_LOSS = "failOnDataLoss"


def topic_table(
    spark: SparkSession,
    log_dir: str,
    topic: str,
    table: str,
    *,
    starts: Mapping[int, int] | None = None,
    ends: Mapping[int, int] | None = None,
    partitions: Collection[int] | None = None,
    since: int | str | None = None,
    until: int | str | None = None,
    columns: Collection[str] | None = None,
    serde: Serde | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Returns the rows of ``topic`` up to its end: from the table at ``table``, and after it from the log.

    The table is a Delta table that ``table_sink`` or the export job writes, or a folder of Parquet files of the job,
    and the result has its columns. In mode append there is a row for each record; in mode upsert, for the newest record
    of each key that is not a tombstone. The call pins one version of the table, and then an end of each partition; each
    action on the DataFrame reads between the same offsets. Every record that was acknowledged before the call is in it,
    except those at or above the last stable offset: an open transaction hides them until it ends. Call again for what
    came later.

    ``starts`` and ``ends`` have, by partition, the first offset, and the one before which to end; others begin with the
    table, and end where the log does. ``partitions`` names the only ones to read. ``since`` and ``until`` (exclusive)
    are times: ms since 1970, or ISO 8601 text. ``columns`` are some of the table's. Other columns are not read from the
    log, and not decoded; a filter on the DataFrame reaches the table only.

    ``serde`` decodes the values of the tail, by default as the sink did (property ``commitlog.serde``). If the sink
    keeps bad records apart, those of the tail are left out. ``options`` are more options of the read of the log, such
    as ``failOnDataLoss=false``, which also allows a gap between table and log.

    Raises InvalidConfigError if there is no such table, for a table without a known serde, for a partition or column
    that does not exist, and for ``ends`` outside the log, or below an upsert table's; OffsetOutOfRangeError, with the
    offsets, if the log no longer has what follows the table; and ProgressMismatchError if the table did not come from
    this log.
    """
    wanted = Wanted(
        starts or {},
        ends or {},
        partitions,
        instant_ms("since", since),
        instant_ms("until", until),
        None if columns is None else tuple(columns),
    )
    return TopicTable.of(spark, log_dir, topic, table, wanted, options or {}).rows(serde)


@dataclass(frozen=True)
class TopicTable:
    """The reads of :func:`topic_table`: a version of the table, and the offsets of the log that follow it."""

    pinned: PinnedTable
    log_dir: str
    topic: str
    spans: list[Span]  # from the table's end in each partition
    wanted: Wanted
    wanted_spans: list[Span]  # the spans to read from the log
    options: Mapping[str, str]

    @classmethod
    def of(
        cls, spark: SparkSession, log_dir: str, topic: str, table: str, wanted: Wanted, options: Mapping[str, str]
    ) -> TopicTable:
        """Pins the table first and then the log's ends, so that the log reaches the table's offsets."""
        pinned = pin(spark, table_location(table))
        loss = DataLoss(fails=options.get(_LOSS, "true").strip().lower() != "false")
        with LogManager.open(log_dir) as manager:
            wanted.check(topic, manager.topic(topic).partitions)
            # The newest record of a key may be anywhere in the log.
            asked = wanted if pinned.mode is TableMode.APPEND else Wanted()
            plan = Plan(manager, topic, pinned.name, wanted.ends, loss, asked.asks_below)
            spans = plan.spans(pinned.seam(manager, topic))
            of_log = wanted.narrow(manager, spans) if pinned.mode is TableMode.APPEND else spans
        if pinned.mode is TableMode.UPSERT and (back := [each for each in spans if each.end < each.start]):
            raise InvalidConfigError(
                f"ends: {pinned.name} has the newest record of each key up to offset {back[0].start - 1} of "
                f"{back[0].partition}, and no older ones: ask for {back[0].start} or more, or read a table of append"
            )
        return cls(pinned, log_dir, topic, spans, wanted, of_log, options)

    def rows(self, serde: Serde | None) -> DataFrame:
        """Returns the rows of both. ``serde`` decodes values; by default, the one that the table records."""
        old = self.pinned.rows
        names = self._columns(old)
        if self.pinned.mode is TableMode.UPSERT:
            return self.wanted.of_both(self._newest(old, serde), self.spans).select(names)
        rows = self.wanted.of_table(old, self.spans).select(names)
        if not tail(self.wanted_spans)[0]:
            return rows
        serde = serde or self.pinned.decoding.serde(self.pinned.name, old.schema)
        return rows.unionByName(self._tail(nullable(old.schema), names, serde))

    def _columns(self, rows: DataFrame) -> list[str]:
        """Returns the requested columns, quoted. Raises InvalidConfigError for one that the table lacks."""
        for name in self.wanted.columns or ():
            if name not in rows.columns:
                raise InvalidConfigError(f"columns: no column {name!r}{did_you_mean(name, rows.columns)}")
        return ["`{}`".format(name.replace("`", "``")) for name in self.wanted.columns or rows.columns]

    def _tail(self, schema: StructType, names: list[str], serde: Serde | None) -> DataFrame:
        """Returns the rows of the log's tail: reads a short tail now; the query reads a long one."""
        asked = self.wanted.columns or tuple(schema.names)
        more = () if self.wanted.since_ms is None and self.wanted.until_ms is None else ("_timestamp",)
        wide = StructType([schema[name] for name in dict.fromkeys((*asked, *more))])
        session, bad = self.pinned.rows.sparkSession, self.pinned.decoding.keeps_bad_apart
        rows = small_tail(session, self.log_dir, self.wanted_spans, self.options, wide, serde, drops_bad=bad)
        if rows is None:
            rows = to_rows(self._records(serde), serde and narrowed(serde, wide.names)).to(wide)
        return self.wanted.at_times(rows).select(names)

    def _newest(self, old: DataFrame, serde: Serde | None) -> DataFrame:
        if not tail(self.spans)[0]:
            return old
        serde = serde or self.pinned.decoding.serde(self.pinned.name, old.schema)
        new = to_rows(newest_of_each_key(self._records(serde)), serde, DELETED)
        new = new.to(StructType([*nullable(old.schema).fields, StructField(DELETED, BooleanType())]))
        count, is_one = sum(each.offset_count for each in self.spans), len(self.spans) == 1
        return newest_of_both(old, self.pinned.tombstones(), new, count, in_one_partition=is_one)

    def _records(self, serde: Serde | None) -> DataFrame:
        """Returns the records of the log, without bad ones if the table keeps them apart."""
        starts, ends = tail(self.wanted_spans)
        session = self.pinned.rows.sparkSession
        records = read_between(session, self.log_dir, self.topic, starts, ends, self.options)
        if not self.pinned.decoding.keeps_bad_apart:
            return records
        by_key = self.pinned.mode is TableMode.UPSERT
        return with_reasons(records, serde, by_key=by_key).where(F.col(REASON).isNull())
