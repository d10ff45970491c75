from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.write.partitioners.setting import OwnPartitioner
from pyspark_commitlog.pipeline.write.targets import ProducerSettings
from pyspark_commitlog.storage import InvalidConfigError
from tests.support.own_classes import own_module

MODULE = """
class Mine:
    def __init__(self, *, regions=1, name=""):
        self.options = regions, name
    def place(self, rows, destination):
        return [0] * rows.num_rows

class ByKeyOnly:
    def partition(self, key, partitions):
        return 0

a_function = len
"""


@pytest.fixture(autouse=True)
def partitioners_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with own_module("partitioners_of_mine", MODULE, tmp_path, monkeypatch):
        yield


def parsed(name: str, /, **more: str) -> OwnPartitioner:
    given = {"kafka.partitioner.class": name} | {f"partitioner.option.{key}": value for key, value in more.items()}
    found = ProducerSettings.parse(given).partitioner
    assert isinstance(found, OwnPartitioner)
    return pickle.loads(pickle.dumps(found))


def test_class_gets_its_options_as_keyword_arguments() -> None:
    assert parsed("partitioners_of_mine:Mine", regions="4", name="eu").create().options == (4, "eu")  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["LeastBytesPartitioner", "pyspark_commitlog:LeastBytesPartitioner"])
def test_ready_one_has_a_short_name(name: str) -> None:
    assert type(parsed(name).create()).__name__ == "LeastBytesPartitioner"


def test_keys_are_left_to_a_class_of_ones_own() -> None:
    given = {"partitioner.class": "partitioners_of_mine:Mine", "partitioner.ignore.keys": "true"}
    assert ProducerSettings.parse(given).partitioner == OwnPartitioner("partitioners_of_mine:Mine")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"partitioner.class": "Mine"},
            "'Mine': must be one of default, .*a class of your own as package.module:Cl",
        ),
        ({"partitioner.class": "com.acme.Mine"}, "'com.acme.Mine': must be one of"),
        ({"partitioner.class": "partitioners_of_mine:"}, "expected package.module:Class, such as pyspark_commitlog:L"),
        ({"partitioner.class": "no_such:Mine"}, "No module named 'no_such'.*--py-files"),
        ({"partitioner.class": "partitioners_of_mine:Your"}, "module partitioners_of_mine has no class 'Your'"),
        ({"partitioner.class": "partitioners_of_mine:a_function"}, "has no class 'a_function'"),
        ({"partitioner.class": "partitioners_of_mine:ByKeyOnly"}, "is no partitioner; it needs place.*RowPartitioner"),
        (
            {"partitioner.class": "partitioners_of_mine:Mine", "partitioner.option.size": "3"},
            "cannot be created with size=3: TypeError",
        ),
        ({"partitioner.option.size": "3"}, "partitioner.option.size: needs a partitioner.class of the form package"),
    ],
)
def test_class_that_is_none_is_refused_at_once(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidConfigError, match=told):
        ProducerSettings.parse(given)
