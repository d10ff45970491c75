"""Copies topics and the offsets of groups into a log of either kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..directory.manager import LogManager
from .begun import BegunCopies
from .choosing import OnComplete, OnDamage, note_nothing, raise_damage, topics_to_copy
from .groups import copy_groups
from .new_names import SAME_NAMES, NewNames
from .pieces import CopiedPartition
from .to_bucket import copy_to_bucket
from .to_directory import copy_to_directory


def copy_topics(
    source: LogManager,
    target: LogManager,
    topics: Collection[str] | None = None,
    on_damage: OnDamage = raise_damage,
    on_complete: OnComplete = note_nothing,
    *,
    new_names: NewNames = SAME_NAMES,
) -> Iterator[CopiedPartition]:
    """Copies topics, and at the end the offsets of groups for them; yields each partition when it is durable.

    Arguments and errors are those of :func:`copy_to_directory`, or :func:`copy_to_bucket`, which passes over no topic,
    and of :func:`copy_groups`.
    """
    log = target.bucket
    if log is not None:
        yield from copy_to_bucket(source, log, topics, on_damage, new_names=new_names)
        copy_groups(source, log, topics, new_names)
        return
    begun = BegunCopies(target)
    yield from copy_to_directory(source, target, topics, on_damage, new_names, on_complete, begun=begun)
    copy_groups(source, target, topics, new_names)
    begun.forget([new_names.of(each) for each in (topics_to_copy(source) if topics is None else topics)])
