"""A segment of a tier that reaches into the next one is shown up to it, with its indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.storage import Isolation, LogManager
from pyspark_commitlog.storage.tiers.address import tier_address
from pyspark_commitlog.storage.tiers.files.filesystem import TieredFiles
from pyspark_commitlog.storage.tiers.opening import open_tier
from tests.support.kafka.broker_dirs import rows
from tests.support.tiers import LAYOUTS, broker, store_with


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_local_segment_that_begins_within_one_of_the_tier_is_read_instead(layout: str, tmp_path: Path) -> None:
    """As on a follower, whose segments begin elsewhere: its first one begins amid a segment of the tier."""
    of_broker = broker(layout, tmp_path)
    partition = of_broker.log / "t-local-0"
    with LogManager.open(str(of_broker.log)) as manager:
        second = manager.open_reader("t-local", 0).read(482, max_bytes=1 << 20)
        assert second is not None
        table = second.window.headers.table
    middle = len(table) // 2
    start, position = int(table["base_offset"][middle]), int(table["position"][middle])
    whole = (partition / "00000000000000000482.log").read_bytes()
    for path in partition.glob("00000000000000000[34]*.*"):
        path.unlink()
    (partition / f"{start:020d}.log").write_bytes(whole[position:])

    files = TieredFiles(tier_address("memory", str(of_broker.log)), open_tier("", store=store_with(of_broker.tier)))
    with LogManager.open(files.root, filesystem=files) as manager:
        reader = manager.open_reader("t-local", 0)
        assert start in [segment.base_offset for segment in reader.segments]
        assert rows(reader) == of_broker.rows("t-local", Isolation.READ_UNCOMMITTED)
        shown = [name for name in files.list(str(partition)) if name.startswith("00000000000000000482")]
        assert "00000000000000000482.log" in shown
        status = files.status(f"{partition}/00000000000000000482.log")
        assert status is not None
        assert status.size == position
