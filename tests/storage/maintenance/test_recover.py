"""The outcome of recovery, with what verification has found in the log since."""

from __future__ import annotations

from pyspark_commitlog.storage.config import LogConfig
from pyspark_commitlog.storage.format.files.file_names import TopicPartition
from pyspark_commitlog.storage.maintenance.outcome import OutcomeStatus, PartitionOutcome
from pyspark_commitlog.storage.maintenance.recover import with_findings
from pyspark_commitlog.storage.maintenance.run import Partition
from pyspark_commitlog.storage.maintenance.verify import Verified, verdict
from pyspark_commitlog.storage.verify.findings import Finding, Kind
from pyspark_commitlog.storage.verify.log import LogFindings

KEY = TopicPartition("t", 0)
RECOVERED = PartitionOutcome(*KEY, OutcomeStatus.DONE, "t-0: nothing to cut", {"truncated_bytes": 0})


def test_findings_are_counted_as_by_verify_and_each_has_its_line() -> None:
    found = [Finding(kind, f"{kind.label}.log", None, None, "odd") for kind in (Kind.ODD_EPOCH, Kind.BAD_CHECKSUM)]
    report = Verified(Partition(*KEY, LogConfig()), LogFindings(tuple(found), 7, 1, 2, 0, 300))
    [joined] = with_findings([RECOVERED], {KEY: report})
    assert joined.text.splitlines() == ["t-0: nothing to cut; 1 damage, 1 note", *(f"  {each}" for each in found)]
    assert joined.text.splitlines()[1:] == verdict(report).text.splitlines()[1:]
    assert (joined.status, joined.facts["truncated_bytes"]) == (OutcomeStatus.DAMAGED, 0)
    assert [each["kind"] for each in joined.facts["findings"]] == ["odd-epoch", "bad-checksum"]


def test_a_log_that_cannot_be_read_any_more_has_the_outcome_of_its_verification() -> None:
    unreadable = PartitionOutcome(*KEY, OutcomeStatus.FAILED, "t-0: failed: no such directory")
    assert list(with_findings([RECOVERED], {KEY: unreadable})) == [unreadable]
