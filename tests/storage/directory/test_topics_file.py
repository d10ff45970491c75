"""``topics.json``: its text, and what is read from it."""

from __future__ import annotations

import json
from uuid import UUID

from hypothesis import given, strategies as st

from pyspark_commitlog.storage.directory.topics_file import (
    Known,
    Owner,
    TopicDescription,
    decode_topics,
    encode_topics,
)
from pyspark_commitlog.storage.format.files import checkpoints

TEXTS = st.dictionaries(st.text(), st.text(), max_size=3)
TOPICS = st.lists(
    st.builds(
        TopicDescription,
        st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,9}", fullmatch=True),
        st.integers(1, 3).map(lambda count: tuple(range(count))),
        TEXTS,
        st.uuids().map(checkpoints.encode_id),
        st.sampled_from([Known.ALL, Known.SOME]),
    ),
    max_size=4,
    unique_by=lambda topic: topic.name,
)


@given(TOPICS, TEXTS, TEXTS)
def test_text_is_indented_json_whatever_the_configs_contain(
    topics: list[TopicDescription], broker: dict[str, str], own: dict[str, str]
) -> None:
    written = encode_topics(topics, broker, {Owner.NODE: {"1": own}})
    assert written == (json.dumps(json.loads(written), indent=2) + "\n").encode()
    found = decode_topics(written)
    assert [(each.name, each.partitions, each.configs, each.topic_id, each.known) for each in found.values()] == [
        (each.name, each.partitions, each.configs, each.topic_id, each.known) for each in topics
    ]


def test_file_without_topics_is_read_as_such() -> None:
    assert decode_topics(encode_topics([])) == {}


def test_configs_are_listed_one_per_line() -> None:
    topic = TopicDescription("a", (0, 1), {"retention.ms": "1"}, checkpoints.encode_id(UUID(int=1)))
    assert encode_topics([topic]).decode().splitlines()[2:9] == [
        '  "topics": {',
        '    "a": {',
        '      "id": "AAAAAAAAAAAAAAAAAAAAAQ",',
        '      "partitions": 2,',
        '      "configs": {',
        '        "retention.ms": "1"',
        "      }",
    ]
