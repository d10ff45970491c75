"""What the sink does through the JVM of a classic session: a query without a checkpoint is warned of."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_commitlog.pipeline.write.foreach_batch import commitlog_sink

WARNED = "this query has no checkpointLocation, so its next start writes all rows again"


def test_a_query_without_a_checkpoint_is_warned_of_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text("1\n")
    log_dir = str(tmp_path / "log")

    def run(**options: str) -> list[str]:
        caplog.clear()
        sink = commitlog_sink(topic="t", log_dir=log_dir)
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
        writer = lines.writeStream.foreachBatch(sink).options(**options).trigger(availableNow=True)  # type: ignore[arg-type]
        writer.start().awaitTermination()
        sink.close()
        return [message for record in caplog.records if WARNED in (message := record.getMessage())]

    assert run(checkpointLocation=str(tmp_path / "temporary-checkpoint")) == []
    (warned,) = run()  # in two micro-batches
    assert "/temporary-" in warned
    assert ".option('checkpointLocation', '…')" in warned
    assert "txnAppId" in warned
