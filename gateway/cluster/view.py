"""View: which nodes are live, and which of them leads a partition.

A leader is found by rendezvous hashing: every node has a rank for every partition, and the live node with the highest
rank leads. So when a node leaves, only its own partitions move, and they are spread evenly over the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from ...registry.errors import RegistryError

VIEW = "/commitlog/view"
HISTORY_MAX = 50  # views that are remembered, for the epochs of leaders
REMEMBERED_MAX = 100_000  # leaders of partitions, found once
NOBODY = -1


class Leader(NamedTuple):
    """The leader of a partition. ``epoch`` grows whenever another node becomes the leader."""

    node: int  # -1: nobody
    epoch: int


@dataclass(frozen=True)
class View:
    """The live nodes in each epoch, up to the newest one. The oldest epoch is 0."""

    history: tuple[tuple[int, frozenset[int]], ...] = ((0, frozenset()),)  # epochs and nodes; the last is now
    _leaders: dict[tuple[str, int], Leader] = field(default_factory=dict, repr=False, compare=False)

    @property
    def epoch(self) -> int:
        """The number of changes so far."""
        return self.history[-1][0]

    @property
    def nodes(self) -> frozenset[int]:
        """The ids of the live nodes."""
        return self.history[-1][1]

    def changed(self, nodes: Collection[int]) -> View:
        """Returns the next view, with these live nodes. The first view has epoch 0."""
        if not self.nodes and len(self.history) == 1:
            return View(((self.epoch, frozenset(nodes)),))
        return View((*self.history, (self.epoch + 1, frozenset(nodes)))[-HISTORY_MAX:])

    def leader(self, topic: str, partition: int) -> Leader:
        """Returns the leader of a partition, and the epoch in which it became the leader. For any thread."""
        found = self._leaders.get((topic, partition))
        if found is None:
            if len(self._leaders) >= REMEMBERED_MAX:  # clients may ask about any names
                self._leaders.clear()
            found = self._leaders[topic, partition] = self._leader(topic, partition)
        return found

    def _leader(self, topic: str, partition: int) -> Leader:
        ranks: dict[int, bytes] = {}

        def rank(node: int) -> bytes:
            if node not in ranks:
                ranks[node] = hashlib.blake2b(f"{node}/{topic}/{partition}".encode(), digest_size=8).digest()
            return ranks[node]

        node, since = max(self.nodes, key=rank, default=NOBODY), self.epoch
        for epoch, nodes in reversed(self.history):
            if max(nodes, key=rank, default=NOBODY) != node:
                break
            since = epoch
        return Leader(node, since)

    def encode(self) -> bytes:
        """Returns the content of the node in the registry."""
        history = [[epoch, sorted(nodes)] for epoch, nodes in self.history]
        content = {"version": 1, "epoch": self.epoch, "nodes": sorted(self.nodes), "history": history}
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> View:
        """Returns the view in the output of :meth:`encode`. Raises RegistryError for anything else."""
        try:
            history = json.loads(data or b"")["history"]
            if not history:
                raise ValueError("it has no epoch")
            return cls(tuple((int(epoch), frozenset(map(int, nodes))) for epoch, nodes in history[-HISTORY_MAX:]))
        except (ValueError, KeyError, TypeError) as error:
            raise RegistryError(f"{VIEW}: the node's content is not a list of live nodes: {data!r:.200}") from error
