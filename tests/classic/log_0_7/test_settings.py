"""The settings of 0.7: defaults, what is refused, and those of single topics."""

from __future__ import annotations

import pytest

from pyspark_commitlog.classic.log_0_7.settings import PositionLogSettings
from pyspark_commitlog.storage.errors import InvalidConfigError


def test_defaults_are_those_of_0_7() -> None:
    settings = PositionLogSettings()
    assert (settings.file_size, settings.flush_interval, settings.max_message_size) == (1 << 30, 500, 1_000_000)
    assert (settings.retention_ms_of("t"), settings.retention_size) == (7 * 24 * 3_600_000, -1)
    assert (settings.flush_ms_of("t"), settings.partitions_of("t")) == (3000, 1)


def test_topics_have_settings_of_their_own() -> None:
    settings = PositionLogSettings.from_mapping(
        {
            "topic.flush.intervals.ms": "fast:10, a:b:20",
            "topic.log.retention.hours": "short:1",
            "log.default.flush.scheduler.interval.ms": "5000",
        }
    )
    assert [settings.flush_ms_of(topic) for topic in ("fast", "a:b", "other")] == [10, 20, 5000]
    assert settings.retention_ms_of("short") == 3_600_000
    assert PositionLogSettings.from_mapping({"log.default.flush.interval.ms": 7}).flush_ms_of("t") == 7


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"log.file.sizes": "1"}, "did you mean 'log.file.size'"),
        ({"log.file.size": "0"}, "log.file.size = '0'"),
        ({"log.flush.interval": "x"}, "log.flush.interval = 'x'"),
        ({"topic.partition.count.map": "t"}, "pairs of a topic and a number"),
        ({"topic.partition.count.map": "t:0"}, "each number at least 1"),
        ({"topic.partition.count.map": "t:x"}, "pairs of a topic and a number"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, str], wrong: str) -> None:
    with pytest.raises(InvalidConfigError, match=wrong):
        PositionLogSettings.from_mapping(given)
