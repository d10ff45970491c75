"""Loads retention policies by the name of their class, ``package.module:Class``, as on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from ..classes import Option, create_by_name, number_or_text
from ..errors import InvalidConfigError
from ..text import parse_pairs
from .policies import RetentionPolicy, RetentionVerdict, Situation
from .survey import SegmentFacts

_EXAMPLE = "pyspark_commitlog.storage:NewestSegmentsRetention"


def load_policy(name: str, options: Iterable[str] = ()) -> RetentionPolicy:
    """Returns the policy of class ``name``, ``package.module:Class``, with ``key=value`` options as keyword arguments.

    A value that is a number is passed as int or float, any other as str. The module is searched for on Python's path,
    then in the current directory. The result can be pickled: another machine loads the class by its name.

    Raises InvalidConfigError if there is no such class, if the options do not fit it, or if it is no policy.
    """
    given = {key: number_or_text(value) for key, value in parse_pairs("--policy-option", options).items()}
    loaded = LoadedPolicy(name, tuple(given.items()))
    _created(loaded)  # raises
    return loaded


@dataclass(frozen=True)
class LoadedPolicy:
    """A policy that is pickled as the name and options of its class, and created when it is first used."""

    path: str  # package.module:Class
    options: tuple[tuple[str, Option], ...] = field(default=())

    @property
    def name(self) -> str:
        return _created(self).name

    def judge(self, segment: SegmentFacts, situation: Situation) -> RetentionVerdict:
        return _created(self).judge(segment, situation)


@lru_cache(maxsize=8)
def _created(policy: LoadedPolicy) -> RetentionPolicy:
    created = create_by_name(f"--policy {policy.path}", policy.path, dict(policy.options), example=_EXAMPLE)
    if not callable(getattr(created, "judge", None)) or not isinstance(getattr(created, "name", None), str):
        raise InvalidConfigError(
            f"--policy {policy.path} is not a retention policy: it needs a text 'name' and a method "
            "judge(segment, situation)"
        )
    return cast(RetentionPolicy, created)
