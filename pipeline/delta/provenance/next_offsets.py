"""The next offset of each partition, which a commit of an exported table records in its ``userMetadata``.

``{"commitlog": {"next": {"flights": {"0": 12}, "flights:5kvM…": {}}, "tombstones": 7}}``: the table has the topic's
records below offset 12, even if some of these offsets have no row (markers, aborted and bad records, deleted keys), and
version 7 of its table of tombstones belongs to it. Imports no Spark.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple, Self

from ....storage import InvalidConfigError
from ...rows.topic_ids import KnownOffsets

_OURS = "commitlog"
_FIRST_SOURCE = 2  # the line of a plan; before it are the plan's version and metadata


class NextOffsets(NamedTuple):
    """The next offset of each partition, with the topic's id, and the version of the table of tombstones, if known."""

    known: KnownOffsets
    tombstones: int | None = None

    def to_json(self) -> str:
        content = {"next": json.loads(self.known.to_json())}
        return json.dumps({_OURS: content | ({} if self.tombstones is None else {"tombstones": self.tombstones})})

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """Parses the output of :meth:`to_json` in a commit; None for any other text, such as a user's own."""
        with suppress(ValueError, KeyError, TypeError, InvalidConfigError):
            content = json.loads(text or "")[_OURS]
            return cls(KnownOffsets.from_json(json.dumps(content["next"]), "userMetadata"), content.get("tombstones"))
        return None

    @classmethod
    def from_plan(cls, text: str) -> Self | None:
        """Returns the offsets at which a micro-batch ends, by its plan in the query's checkpoint.

        Returns None for "", which stands for an unknown plan, and for a query of several sources, or of another kind.
        """
        sources = text.splitlines()[_FIRST_SOURCE:]
        with suppress(InvalidConfigError):
            if len(sources) == 1:
                return cls(KnownOffsets.from_json(sources[0], "of the checkpoint"))
        return None
