"""The progress of a query that writes to a Delta table, and whether the query may continue.

With each commit, Delta stores the query's name (``txnAppId``) and the micro-batch (``txnVersion``). It silently skips a
micro-batch whose number is not above the last one. So if another query uses the name, or if the query's checkpoint was
set back, rows would be lost; such a query is refused. A property of the table records the query of each ``txnAppId``.

The table may be set back, too, or deleted. So a note in the query's checkpoint has the newest micro-batch that was
written to the table (``write.exactly_once.checkpoint``). For the export job, which writes every micro-batch to its
table, Spark's own entries in the checkpoint are enough.

With ``delta.setTransactionRetentionDuration``, Delta forgets a micro-batch that is older, and would write it again. It
is then searched for in the table's commits.

With Spark Connect, the number of the last micro-batch is not known, so another query is refused even if the earlier
query committed nothing. Where the query itself is not known, only Delta's rule applies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, functions as F

from ...storage import InvalidConfigError, ProgressMismatchError, made_again
from ..write.exactly_once.checkpoint import Checkpoint, LocalCheckpoint, Note, Target
from ..write.exactly_once.progress import Run
from .provenance.commits import local_commits, local_folder, local_version, newest_recorded
from .provenance.next_offsets import NextOffsets

_NOTED = "table"  # in the place of a topic's name in notes
_QUERY = "commitlog.query."  # followed by the txnAppId: the property of the table with the query's id
_FORGETTING = "delta.setTransactionRetentionDuration"  # Delta's property: how long it knows a micro-batch
_IN_GLOBS = re.compile(r"[\\{}\[\]*?]")  # characters of a path that Hadoop takes for a pattern

# The commits of this process: by table and txnAppId, the query's run and the version.
_committed: dict[tuple[str, str], tuple[str, int]] = {}


def properties_of(session: SparkSession, path: str) -> dict[str, str]:
    """Returns the properties of the Delta table at ``path``."""
    details = DeltaTable.forPath(session, path).detail().select("properties").head()
    return dict(details[0]) if details else {}


def set_properties(session: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    """Sets properties of the table in a commit of their own; does nothing if there are none to set."""
    if properties:
        pairs = ", ".join(f"{_quoted(name)} = {_quoted(value)}" for name, value in properties.items())
        escaped = path.replace("`", "``")
        session.sql(f"ALTER TABLE delta.`{escaped}` SET TBLPROPERTIES ({pairs})")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def query_property(run: Run) -> dict[str, str]:
    """Returns the table property that records the query of ``txnAppId``; {} if the ``txnAppId`` is the query's id."""
    return {} if run.app_id == run.query_id or not run.query_id else {_QUERY + run.app_id: run.query_id}


def check_has_batches(session: SparkSession, path: str, checkpoint: str) -> None:
    """Raises ProgressMismatchError if the table at ``path`` lacks a batch that a query completed.

    For a query that writes each batch to the table, under its own id. ``checkpoint`` is the query's; nothing is checked
    if it is not local. The query would go on after that batch, and the table would lack its rows.
    """
    known = LocalCheckpoint(checkpoint.removeprefix("file:"))
    query_id, last = known.query_id(), known.newest_commit()
    if last is None or not query_id:
        return
    done = newest_batch(session, path, query_id)
    if done is None or done < last:
        completed = f"the query of checkpoint {checkpoint} has completed batch {last}"
        how = "or give a new checkpoint, with which the query begins where the table ends"
        raise _lacking(completed, path, done, how)


def newest_batch(session: SparkSession, path: str, app_id: str) -> int | None:
    """Returns the last micro-batch of ``app_id`` in the table at ``path``; None if it has none, or there is no table.

    Not with Spark Connect.
    """
    from ..write.classic_session import committed_version, newest_version  # noqa: PLC0415  needs py4j, unlike Connect

    if not DeltaTable.isDeltaTable(session, path):
        return None
    newest_version(session, path)  # not the one that this JVM read last
    known = committed_version(session, path, app_id)
    if known is None and _FORGETTING in properties_of(session, path):
        return _newest_in_commits(session, path, app_id)
    return known


def _newest_in_commits(session: SparkSession, path: str, app_id: str) -> int | None:
    """Returns the last micro-batch of ``app_id`` in the table's commits, also one that Delta has forgotten.

    Delta keeps commits for ``delta.logRetentionDuration``; returns None if none of the kept ones has a micro-batch.
    """
    folder = _IN_GLOBS.sub(r"\\\g<0>", path)
    commits = session.read.schema("txn struct<appId: string, version: bigint>").json(f"{folder}/_delta_log/*.json")
    found = commits.where(F.col("txn.appId") == app_id).agg(F.max("txn.version")).head()
    return None if found is None or found[0] is None else int(found[0])


def _lacking(known: str, path: str, done: int | None, way_out: str) -> ProgressMismatchError:
    """Returns the error for a table that has only the batches up to ``done``; ``known``: which one it must have."""
    has = "none of its batches" if done is None else f"its batches only up to {done}"
    return ProgressMismatchError(
        f"{known}, but table {path} has {has}: the table was deleted, is an older copy, or another one, or forgets "
        f"batches ({_FORGETTING}) and no longer has their commits. Continuing would leave out the rows in between, "
        f"unless the table has them. Put back the table that fits; {way_out}"
    )


class TableProgress:
    """Compares a micro-batch of a query with the query's progress in the table at ``path``."""

    def __init__(self, session: SparkSession, path: str, run: Run, version: int, checkpoint: Checkpoint) -> None:
        """Reads what the table has, which may be missing. ``checkpoint`` is the query's."""
        self._path = path
        self._run = run
        self._version = version
        self._checkpoint = checkpoint
        self._target = Target(run.app_id, path, {_NOTED: None})
        is_known = bool(run.query_id) and not run.is_remote
        self._done = newest_batch(session, path, run.app_id) if is_known else None

    @property
    def is_there(self) -> bool:
        """Whether the table has this micro-batch: Spark repeats a micro-batch unless it has recorded its end."""
        return self._done == self._version

    def check_has_noted(self) -> None:
        """Raises ProgressMismatchError if the table lacks a batch that the checkpoint notes. The table may be missing.

        A function for foreachBatch need not write each micro-batch to the table, so only the noted one must be there.
        """
        for _, note, source, way_out in self._checkpoint.remembered(self._target):
            if self._reached < note.required(self._version):
                known = f"{source} that batch {note.batch} of txnAppId {self._run.app_id!r} was written"
                how = (
                    "or start at its end (tables.starting_offsets) with a new checkpoint and another txnAppId, or "
                    f"none; or, to continue without these rows, {way_out}"
                )
                raise _lacking(known, self._path, self._done, how)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Syncs the checkpoint with a note of the micro-batch, and then runs the block, which writes it to the table.

        It is noted first, so that no kill leaves a table with a batch that the checkpoint does not know. The table may
        lack it until Spark plans the next one. If the block fails, the note before is restored.
        """
        note = Note(self._version, self._reached, None)
        with self._checkpoint.secured(self._target, {_NOTED: note}) as secured:
            secured.result()
            yield

    @property
    def _reached(self) -> int:
        return 0 if self._done is None else self._done + 1

    def check(self, properties: Mapping[str, str]) -> None:
        """Raises an error if Delta would skip rows that are not in the table; ``properties`` are the table's.

        Raises InvalidConfigError if another query used this name, or for a second write of the version in one run, and
        ProgressMismatchError if the table has a later version.
        """
        run, done = self._run, self._done
        wrote = properties.get(_QUERY + run.app_id, "")
        may_have_written = done is not None or (run.is_remote and run.queries)
        if may_have_written and wrote and wrote not in run.queries:
            number = "some" if done is None else done + 1
            raise InvalidConfigError(
                f"txnAppId {run.app_id!r} wrote {number} batches to table {self._path} as query {wrote}, but this is "
                f"query {' or '.join(sorted(run.queries))}: a new checkpoint with an old txnAppId would skip or repeat "
                "these batches. To start over on purpose, use another txnAppId, or none; tables.starting_offsets "
                "returns where the table ends"
            )
        if run.query_id and _committed.get(self._id) == (run.run_id, self._version):
            raise InvalidConfigError(
                f"batch {self._version} was already written to table {self._path} in this run: a foreachBatch function "
                "that writes to a table twice needs a txnAppId for each write"
            )
        if done is not None and self._version < done:
            raise ProgressMismatchError(
                f"table {self._path} has batch {done} of txnAppId {run.app_id!r}, but this is batch {self._version}: "
                "the checkpoint was set back, or is a new one. Start at the end of the table (tables.starting_offsets) "
                "with a new checkpoint and another txnAppId, or none"
            )

    def note(self) -> None:
        """Notes in memory that this process has written the micro-batch to the table."""
        _committed[self._id] = (self._run.run_id, self._version)

    @property
    def _id(self) -> tuple[str, str]:
        return self._path, self._run.app_id

    def _recorded(self) -> NextOffsets | None:
        folder = local_folder(self._path)
        newest = None if folder is None else local_version(folder)
        return None if folder is None or newest is None else newest_recorded(local_commits(folder, newest))

    def check_there(self, rows: DataFrame, following: NextOffsets | None) -> None:
        """Raises ProgressMismatchError if a repeated micro-batch is another one than the table has.

        The table lacks some of ``rows``, which are the batch's now. Or the newest commit with rows, of a table on a
        local disk, recorded larger offsets than ``following``, the next ones by the batch's plan: the next
        micro-batch would add the rows in between again.
        """
        ends, wanted = (ends_of(each) for each in (rows.sparkSession.read.format("delta").load(self._path), rows))
        missing = {part: offset for part, offset in wanted.items() if offset > ends.get(part, -1)}
        beyond = beyond_plan(following, self._recorded()) if following is not None else {}
        if missing or beyond:
            what = f"the table lacks {_listed(missing)}" if missing else f"the table has {_listed(beyond)} already"
            raise ProgressMismatchError(
                f"batch {self._version} of txnAppId {self._run.app_id!r} is in table {self._path}, but has other "
                f"records now: {what}. The checkpoint was set back, or lost its entry for the batch. Start at the end "
                "of the table (tables.starting_offsets) with a new checkpoint and another txnAppId, or none"
            )


def ends_of(rows: DataFrame) -> dict[int, int]:
    """Returns the largest offset of each partition among ``rows``, which have the columns of a table."""
    return dict(map(tuple, rows.groupBy("_partition").agg(F.max("_offset")).collect()))


def beyond_plan(following: NextOffsets, recorded: NextOffsets | None) -> dict[int, int]:
    """Returns the largest offset of each partition of the same topics that a table has although it is to follow."""
    if recorded is None:
        return {}
    others = made_again(recorded.known.ids, following.known.ids)
    return {
        partition.partition: offset - 1
        for partition, offset in recorded.known.offsets.items()
        if partition.topic not in others and offset > following.known.offsets.get(partition, offset)
    }


def _listed(offsets: Mapping[int, int]) -> str:
    return ", ".join(f"offset {offset} of partition {part}" for part, offset in sorted(offsets.items()))
