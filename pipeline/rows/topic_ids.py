"""The ids of topics, stored beside offsets, which reveal that a topic was deleted and made again.

They are entries of the JSON: ``{"flights": {"0": 23}, "flights:5kvMfJ_dSQWdBJGa6rPy1A": {}}``. No topic has a colon in
its name. Spark's Kafka source, and older versions of this package, read such an entry as a topic without partitions, so
they can continue from these offsets, and this source from theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from ...storage import TopicIds
from .offsets import Offsets, json_object, offsets_from_nested, offsets_to_nested

_BETWEEN = ":"


class KnownOffsets(NamedTuple):
    """Offsets with the ids of their topics, as far as they are known."""

    offsets: Offsets
    ids: TopicIds

    @classmethod
    def from_json(cls, text: str, option: str) -> Self:
        """Parses the output of :meth:`to_json`, or offsets without ids. Raises InvalidConfigError naming ``option``."""
        nested = json_object(text, option, '{"flights": {"0": 23}}')
        return cls(offsets_from_nested(nested, option, least=0), ids_in(nested))

    def to_json(self) -> str:
        return json.dumps(with_ids(offsets_to_nested(self.offsets), self.ids))


def with_ids(nested: Mapping[str, Any], ids: TopicIds) -> dict[str, Any]:
    """Returns offsets by topic with the ids of these topics, in an order that depends only on these."""
    return {**nested, **{f"{topic}{_BETWEEN}{ids[topic]}": {} for topic in sorted(nested) if topic in ids}}


def ids_in(nested: Mapping[str, Any]) -> dict[str, str]:
    """Returns the ids stored with offsets; empty for offsets of Spark's Kafka source and of older versions."""
    found = (name.partition(_BETWEEN) for name in nested)
    return {topic: topic_id for topic, between, topic_id in found if between}
