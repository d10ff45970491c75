"""A short torture of the job that exports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.kills.tables import torture

pytestmark = [pytest.mark.slow, pytest.mark.only_all]


def test_topic_to_table_to_topic_under_kills_is_the_same_topic(tmp_path: Path) -> None:
    tally = torture(tmp_path, kills=2, seed=1, records=1200)
    assert tally.total == 2
    assert tally.rows == 1200
