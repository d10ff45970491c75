"""Makes the pictures of docs/browse.md: ``python -m tests.browse.pictures``, with Debian's Chromium."""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path

from pyspark_commitlog.storage import CommittedOffset, GroupOffsets, LogManager
from tests.support.browse import visiting
from tests.support.chromium import chromium
from tests.support.logs.building import now_ms, records
from tests.support.logs.directories import directory_with_internal_topics

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = {  # file: page, theme
    "browse_partition.png": ("/topics/orders/0", "light"),
    "browse_records.png": ("/topics/orders/0/records?offset=2411", "dark"),
}
SIZE = {"width": 1120, "height": 640}
DAY_MS = 86_400_000
PRODUCTS = ("tea", "rice", "milk", "apples", "figs")


def shop(directory: Path) -> str:
    """A log with some days of orders; a group has read most of them."""
    chance, path = random.Random(1), directory_with_internal_topics(directory)
    configs = {"retention.ms": str(7 * DAY_MS), "segment.bytes": "60000"}
    with LogManager.open(path) as manager:
        manager.create_topic("orders", partitions=1, configs=configs)
        log, begin = manager.open_log("orders", 0), now_ms() - 8 * DAY_MS
        for day in range(8):
            for part in range(chance.randrange(4, 9)):
                numbers = range(day * 1000 + part * 100, day * 1000 + part * 100 + 80)
                values = [json.dumps({"order": n, "product": chance.choice(PRODUCTS), "count": n % 7}) for n in numbers]
                keys = [b"customer-%d" % chance.randrange(500) for _ in numbers]
                times = [begin + day * DAY_MS + part * 3_600_000 + n % 1000 * 1000 for n in numbers]
                log.append_records(records([each.encode() for each in values], keys=keys, timestamps=times))
            if day % 3 != 1:
                log.roll()
        GroupOffsets(manager).commit("etl", {("orders", 0): CommittedOffset(log.log_end_offset - 700)})
    return path


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        os.chdir(folder)  # so that the page shows a short path
        shop(Path("shop"))
        with visiting("shop") as visitor:
            for name, (path, theme) in PICTURES.items():
                page = browser.new_page(viewport=SIZE, color_scheme=theme)
                page.goto(f"http://{visitor.address}{path}")
                page.screenshot(path=IMAGES / name)


if __name__ == "__main__":
    main()
