"""Removes names that a request repeats, before anything is read or computed for them.

Functions take a body and its version, and return a body that names everything once, in the order of the first names.
Kinds of requests without one (``handlers/table``) answer repeated names as Kafka does: with an error (ListOffsets,
changes of topics and configs), by the last one (OffsetCommit), or each (Produce, Fetch, OffsetForLeaderEpoch, and
reassignments), which costs no more than their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

_SEVERAL_GROUPS = 8  # the first version of OffsetFetch that can ask for several groups
_WITHOUT_ERROR = 1  # since this version of ListOffsets, a partition that is named twice gets an error


def texts(body: Any, version: int, *, field: str) -> Any:
    given = getattr(body, field, None)  # older versions have one, in another field
    return body if given is None else replace(body, **{field: tuple(dict.fromkeys(given))})


def topics(body: Any, version: int, *, name: str = "name", partitions: str = "partition_indexes") -> Any:
    return body if body.topics is None else replace(body, topics=_merged(body.topics, name, partitions))


def _merged(topics: Iterable[Any], name: str, partitions: str, key: Callable[[Any], object] | None = None) -> Any:
    """Returns topics, each with its partitions once; of several entries for a partition, the last one counts."""
    first: dict[str, Any] = {}
    found: dict[str, dict[object, Any]] = {}
    for topic in topics:
        topic_name = getattr(topic, name)
        first.setdefault(topic_name, topic)
        own = found.setdefault(topic_name, {})
        for each in getattr(topic, partitions):
            own[each if key is None else key(each)] = each
    return tuple(replace(topic, **{partitions: tuple(found[each].values())}) for each, topic in first.items())


def groups_with_topics(body: Any, version: int) -> Any:
    if version < _SEVERAL_GROUPS:
        return topics(body, version)
    by_id: dict[str, list[Any]] = {}
    for each in body.groups:
        by_id.setdefault(each.group_id, []).append(each)
    return replace(body, groups=tuple(map(_one_group, by_id.values())))


def _one_group(several: list[Any]) -> Any:
    """Returns one entry for all entries of a group; one that asks for all topics includes the others."""
    if any(each.topics is None for each in several):
        return replace(several[0], topics=None)
    topics = [topic for each in several for topic in each.topics]
    return replace(several[0], topics=_merged(topics, "name", "partition_indexes"))


def resources(body: Any, version: int) -> Any:
    first: dict[tuple[int, str], Any] = {}
    wanted: dict[tuple[int, str], dict[str, None] | None] = {}
    for each in body.resources:
        which = each.resource_type, each.resource_name
        first.setdefault(which, each)
        own = wanted.setdefault(which, {})
        if own is None or not each.configuration_keys:
            wanted[which] = None  # all
        else:
            own.update(dict.fromkeys(each.configuration_keys))
    merged = (
        replace(each, configuration_keys=None if (own := wanted[which]) is None else tuple(own))
        for which, each in first.items()
    )
    return replace(body, resources=tuple(merged))


def numbered_topics(body: Any, version: int) -> Any:
    merged = _merged(body.topics, "name", "partitions", lambda each: each.partition_index)
    return replace(body, topics=merged)


def oldest_offsets(body: Any, version: int) -> Any:
    return numbered_topics(body, version) if version < _WITHOUT_ERROR else body
