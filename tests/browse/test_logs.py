"""The logs that pages share: how many stay open."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from pyspark_commitlog.browse.logs import Logs, OpenLog
from tests.support.logs.directories import managed


def test_logs_that_were_opened_in_lent_turns_do_not_stay_open(tmp_path: Path) -> None:
    with managed(tmp_path / "log") as manager:
        manager.create_topic("t", partitions=1)
    logs, opened = Logs(str(tmp_path / "log"), at_once=2), list[OpenLog]()
    with ExitStack() as pages:
        for _ in range(5):
            opened.append(pages.enter_context(logs.open()))
            pages.enter_context(logs.lend_turn())
    with logs.open() as first, logs.open() as second:
        assert {first, second} < {*opened}
    assert len(logs._idle) == 2
    logs.close()
