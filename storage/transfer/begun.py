"""BegunCopies: the topics that copies to a directory have begun, until the offsets of groups are copied too.

A copy that was killed after its last partition looks complete, but for the groups; and topics that got a new name have
an id of their own, which tells nobody that an earlier run of the copy made them. ``.commitlog.copying`` has both: it
names the topics in the target, with their ids there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from ..directory.admin import topic_id
from ..directory.log_directory import ROOT_FILE_BYTES_MAX
from ..directory.manager import LogManager
from ..filesystem.operations import read_file, write_atomically
from .unfinished import is_unfinished

COPYING_FILE = ".commitlog.copying"


class BegunCopies:
    """The topics in a target's ``.commitlog.copying``."""

    def __init__(self, target: LogManager) -> None:
        self._target, self._path = target, target.path(COPYING_FILE)

    def ids(self) -> dict[str, str]:
        """Returns the ids of the topics in the target, by their names there."""
        try:
            found: dict[str, str] = json.loads(read_file(self._target.filesystem, self._path, ROOT_FILE_BYTES_MAX))
        except FileNotFoundError:
            return {}
        return found

    def add(self, topic: str) -> None:
        """Adds a topic of the target; durable on return."""
        id_ = topic_id(self._target, self._target.topic(topic)) or ""
        with self._target.root_lock():
            if self.ids().get(topic) != id_:
                self._write({**self.ids(), topic: id_})

    def forget(self, topics: Collection[str]) -> None:
        """Removes topics, unless a partition of one of them is unfinished: then the copy will be run again."""
        partitions = [each for name in topics for each in self._target.topic(name).topic_partitions]
        if any(is_unfinished(self._target, each) for each in partitions):
            return
        with self._target.root_lock():
            self._write({topic: id_ for topic, id_ in self.ids().items() if topic not in topics})

    def _write(self, topics: Mapping[str, str]) -> None:
        if topics:
            write_atomically(self._target.filesystem, self._path, json.dumps(topics).encode())
            return
        self._target.filesystem.remove(self._path)
        self._target.filesystem.sync_directory(self._target.directory)
