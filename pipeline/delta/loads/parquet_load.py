"""Loads a topic into a folder of Parquet files, which has the next offsets beside the rows: docs/tables.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, functions as F

from ....arrow.values.recorded import serde_to_text
from ....arrow.values.serde import Serde
from ...rows.topic_ids import KnownOffsets
from ..parquet_folder import ParquetFolder
from ..points import Points, at_or_above
from ..table_rows import brings_fields, differ, nullable, to_rows
from .topic_load import Loaded, TopicLoad


@dataclass(frozen=True)
class ParquetLoad(TopicLoad):
    """A load of a topic into ``folder``. ``serde`` decodes values, as for tables."""

    folder: ParquetFolder
    serde: Serde | None

    def run(self) -> Loaded:
        """Adds records written to the topic since the last load; with ``wanted``, first goes back to that point.

        Rows at or above the point are replaced by the records of the log, and new ones are added, at once: readers see
        all of it or none. Rows that match the log stay, so a second load changes no file. A new folder begins at the
        point, or at the earliest record. After a crash, the rows are as before the load or after it, and the next load
        continues there (``ParquetFolder.publish``).

        Raises the errors of ``find_points``; OffsetOutOfRangeError if records were deleted before they were loaded;
        ProgressMismatchError if the rows did not come from this log; InvalidConfigError if values lack a field of the
        rows, or have it with another type; and LogDirLockedError while another load runs.
        """
        with self.folder.locked():
            before, rows = self._of_topic(self.folder.next_offsets(), str(self.folder.path)), self._rows()
            done, (starts, ends, ids) = before.offsets, self._spans(before, rows, str(self.folder.path))
            back = {number: start for number, start in starts.items() if start < done.get(number, start)}
            there = {number: min(done[number], ends[number]) for number in back}
            if rows is not None and back and not self._changed(rows, back, there):
                starts, back = starts | there, {}
            is_known = before.ids == ids and all(done.get(number) == end for number, end in ends.items())
            if rows is None or back or not is_known:
                self._publish(rows, starts, self._known(ends, ids), back)
            return Loaded(starts, ends, bool(back), bool(done))

    def _rows(self) -> DataFrame | None:
        current = self.folder.current()
        return None if current is None else self.session.read.parquet(f"file:{current}")

    def _new_rows(self, starts: Points, ends: Points) -> DataFrame:
        new = to_rows(self._records(starts, ends), self.serde)
        return new.to(nullable(new.schema))

    def _changed(self, rows: DataFrame, back: Points, ends: Points) -> bool:
        again = self._new_rows(back, ends)
        if brings_fields(rows.schema, again.schema, str(self.folder.path)):
            return True
        return differ(rows.where(at_or_above(back)), again.to(rows.schema))

    def _publish(self, rows: DataFrame | None, starts: Points, known: KnownOffsets, back: Points) -> None:
        ends = {each.partition: end for each, end in known.offsets.items()}
        new, kept = self._new_rows(starts, ends), set[str]()
        if rows is not None:
            is_wider = brings_fields(rows.schema, new.schema, str(self.folder.path))
            new = new if is_wider else new.to(rows.schema)
            names = {_name(file) for file in rows.inputFiles()}
            changed = names if is_wider else _files_at_or_above(rows, back)
            kept = names - changed
            if changed:
                files = [f"file:{self.folder.current()}/{name}" for name in sorted(changed)]
                old = self.session.read.schema(rows.schema).parquet(*files)
                new = old.where(~at_or_above(back)).to(new.schema).unionByName(new)
        serde = serde_to_text(self.serde)
        self.folder.publish(known, lambda folder: new.write.parquet(f"file:{folder}"), kept, serde)


def _files_at_or_above(rows: DataFrame, points: Points) -> set[str]:
    if not points:
        return set()
    found = rows.where(at_or_above(points)).select(F.input_file_name()).distinct().collect()
    return {_name(row[0]) for row in found}


def _name(uri: str) -> str:
    return Path(unquote(urlsplit(uri).path)).name
