"""Loads retention policies by the name of their class, ``package.module:Class``, as on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module

from ..errors import InvalidConfigError, LogStoreError
from ..text import parse_pairs
from .policies import RetentionPolicy, RetentionVerdict, Situation
from .survey import SegmentFacts

Option = int | float | str

_FORM = "expected package.module:Class, such as pyspark_commitlog.storage:NewestSegmentsRetention"


def load_policy(name: str, options: Iterable[str] = ()) -> RetentionPolicy:
    """Returns the policy of class ``name``, ``package.module:Class``, with ``key=value`` options as keyword arguments.

    A value that is a number is passed as int or float, any other as str. The module is searched for on Python's path,
    then in the current directory. The result can be pickled: another machine loads the class by its name.

    Raises InvalidConfigError if there is no such class, if the options do not fit it, or if it is no policy.
    """
    given = {key: _number_or_text(value) for key, value in parse_pairs("--policy-option", options).items()}
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
    try:
        created: RetentionPolicy = _class_of(policy.path)(**dict(policy.options))
    except LogStoreError as error:
        raise InvalidConfigError(f"--policy {policy.path}: {error}") from None
    except Exception as error:
        raise InvalidConfigError(
            f"--policy {policy.path}: cannot be created with {_shown(dict(policy.options))}: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(created, "judge", None)) or not isinstance(getattr(created, "name", None), str):
        raise InvalidConfigError(
            f"--policy {policy.path}: is no retention policy; it needs a text 'name' and judge(segment, situation)"
        )
    return created


def _class_of(path: str) -> type:
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise InvalidConfigError(_FORM)
    try:
        module = _module(module_name)
    except ImportError as error:
        raise InvalidConfigError(
            f"{error}; give the module with its package, install it, or, with spark-submit, pass it with --py-files"
        ) from error
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise InvalidConfigError(f"module {module_name} has no class {name!r}")
    return found


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or "" in sys.path:
            raise
    sys.path.append("")
    return import_module(name)


def _number_or_text(text: str) -> Option:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _shown(options: Mapping[str, Option]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items()) or "no options"
