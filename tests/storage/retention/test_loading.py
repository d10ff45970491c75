"""Policies by name, from a module of the user's own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_commitlog.storage.errors import InvalidConfigError
from pyspark_commitlog.storage.retention.loading import load_policy
from pyspark_commitlog.storage.retention.plan import RetentionOptions, plan_retention
from pyspark_commitlog.storage.retention.ready_policies import NewestSegmentsRetention
from pyspark_commitlog.storage.retention.survey import LogFacts, SegmentFacts
from tests.support.logs.building import NOW_MS, config
from tests.support.own_classes import own_module as module_of_mine

MODULE = """
from pyspark_commitlog.storage import RetentionVerdict

class Before:
    name = "mine"
    def __init__(self, offset, why="it is old"):
        self.offset, self.why = offset, why
    def judge(self, segment, situation):
        return RetentionVerdict(segment.next_offset <= self.offset, f"{self.why} ({type(self.offset).__name__})")

class Failing:
    name = "failing"
    def judge(self, segment, situation):
        return 1 / 0

class Wordless:
    name = "wordless"
    def judge(self, segment, situation):
        return True

class NoPolicy:
    pass

a_function = len
"""


@pytest.fixture(autouse=True)
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with module_of_mine("retention_of_mine", MODULE, tmp_path, monkeypatch):
        yield


def facts() -> LogFacts:
    segments = tuple(SegmentFacts(n, n + 1, 10, NOW_MS, NOW_MS, NOW_MS, is_active=n == 2) for n in range(3))
    return LogFacts("/logs/t-0", segments, 0, 3, 3)


def test_a_class_of_ones_own_decides_with_its_options() -> None:
    policy = pickle.loads(pickle.dumps(load_policy("retention_of_mine:Before", ["offset=2", "why=I say so"])))
    plan = plan_retention(facts(), config(), NOW_MS, RetentionOptions(policies=(policy,)))
    assert [(fate.rule, fate.reason) for fate in plan.removed] == [("mine", "I say so (int)")] * 2


def test_a_ready_policy_is_found_by_its_public_name() -> None:
    policy = load_policy("pyspark_commitlog.storage:NewestSegmentsRetention", ["segments=2"])
    plan = plan_retention(facts(), config(), NOW_MS, RetentionOptions(policies=(policy,)))
    assert [fate.segment.base_offset for fate in plan.removed] == [0]
    assert policy.name == NewestSegmentsRetention(2).name


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("retention_of_mine", [], "expected package.module:Class, such as pyspark_commitlog.storage:Newest"),
        (":Before", [], "expected package.module:Class"),
        ("no_such_module_of_mine:Before", [], "No module named 'no_such_module_of_mine'; give the module with"),
        ("retention_of_mine:Befor", [], "module retention_of_mine has no class 'Befor'"),
        ("retention_of_mine:a_function", [], "has no class 'a_function'"),
        ("retention_of_mine:Before", [], "cannot be created with no options: TypeError: .*'offset'"),
        ("retention_of_mine:Before", ["offset=1", "days=2"], "cannot be created with offset=1, days=2: TypeError"),
        ("retention_of_mine:NoPolicy", [], "is not a retention policy: it needs a text 'name' and a method judge"),
        ("pyspark_commitlog.storage:NewestSegmentsRetention", ["segments=0"], "segments = 0: must be a whole number"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_name(path: str, options: list[str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message) as refused:
        load_policy(path, options)
    assert path in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Failing", "retention policy 'failing' failed at segment 0: ZeroDivisionError: division by zero; nothing was"),
        (
            "Wordless",
            r"retention policy 'wordless' failed at segment 0: judge\(\) returned True, not a RetentionVerdict",
        ),
    ],
)
def test_a_policy_that_fails_is_named_with_the_segment(name: str, message: str) -> None:
    options = RetentionOptions(policies=(load_policy(f"retention_of_mine:{name}"),))
    with pytest.raises(InvalidConfigError, match=message):
        plan_retention(facts(), config(), NOW_MS, options)
