"""The changes in a request: to single configs, or to all configs of a resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ....storage import LIST, InvalidConfigError, Key, LogConfig, keys_of
from .resources import is_of_no_kind

Changes = Mapping[str, str | None]  # None: back to the default


class Operation(IntEnum):
    """How a config is changed (``AlterConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def malformed(resources: Sequence[Any]) -> Callable[[Any], str | None]:
    """Returns a function that returns why a resource cannot be changed by anyone; None if it can.

    A broker checks this before it checks permissions (``ConfigAdminManager.preprocess``).
    """
    times = Counter((each.resource_type, each.resource_name) for each in resources)

    def reason(asked: Any) -> str | None:
        if times[asked.resource_type, asked.resource_name] > 1:
            return "the request names the resource more than once"
        for each in asked.configs:
            if each.value is None and getattr(each, "config_operation", Operation.SET) != Operation.DELETE:
                return f"{each.name} has no value"
        names = [each.name for each in asked.configs]
        if len({*names}) < len(names):
            return "the request names a config more than once"
        return f"there are no resources of kind {asked.resource_type}" if is_of_no_kind(asked) else None

    return reason


def replacing(replaced: Iterable[str], configs: Sequence[Any]) -> Changes:
    """Returns the changes of AlterConfigs, none of which is :func:`malformed`.

    Configs in ``replaced`` that it does not name are reset.
    """
    return {**dict.fromkeys(replaced), **{each.name: each.value for each in configs}}


def incremental(own: Mapping[str, str], configs: Sequence[Any]) -> Changes:
    """Returns the changes of IncrementalAlterConfigs, none of which is :func:`malformed`.

    Raises RequestError and InvalidConfigError.
    """
    changes: dict[str, str | None] = {}
    for each in configs:
        if each.config_operation == Operation.DELETE:
            if each.name in own:
                changes[each.name] = None
        elif each.config_operation == Operation.SET:
            changes[each.name] = each.value
        elif each.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            changes[each.name] = _changed_list(own, each)
        else:
            raise RequestError(ErrorCode.invalid_request, f"there is no operation {each.config_operation}")
    return changes


def _changed_list(own: Mapping[str, str], change: Any) -> str:
    key = _lists().get(change.name)
    if key is None:
        raise InvalidConfigError(
            f"{change.name} is not a list: set it instead of appending to it or subtracting from it"
        )
    before = dict.fromkeys(own.get(change.name, key.kind.render(key.default)).split(","))
    given = dict.fromkeys(change.value.split(","))
    if change.config_operation == Operation.APPEND:
        kept = [*filter(None, before), *(each for each in given if each not in before)]
    else:
        kept = [each for each in before if each and each not in given]
    return ",".join(kept)


@cache
def _lists() -> Mapping[str, Key]:
    """Returns the keys whose values are lists, by the names of topics and of nodes."""
    keys = [key for key in keys_of(LogConfig).values() if key.kind is LIST]
    return {name: key for key in keys for name in (key.name, *(each.name for each in key.synonyms))}
