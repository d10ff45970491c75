"""Which topics a white or black list chooses, as Kafka's TopicFilter does."""

from __future__ import annotations

import pytest

from pyspark_commitlog.classic.topic_filters import Blacklist, Whitelist
from pyspark_commitlog.storage import InvalidConfigError

TOPICS = ("flights", "flights-2", "orders", "my.topic", "__consumer_offsets")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("flights", ["flights"]),
        ("flights,orders", ["flights", "orders"]),
        (" 'flights , orders' ", ["flights", "orders"]),
        ('"flights.*"', ["flights", "flights-2"]),
        ("light", []),
        ("my.topic|x", ["my.topic"]),
        (".*", ["flights", "flights-2", "orders", "my.topic"]),
    ],
)
def test_a_list_is_about_whole_names_and_a_comma_means_or(text: str, chosen: list[str]) -> None:
    assert [each for each in TOPICS if Whitelist(text).allows(each)] == chosen
    others = [each for each in TOPICS if each not in chosen and not each.startswith("__")]
    assert [each for each in TOPICS if Blacklist(text).allows(each)] == others


@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_internal_topics_are_left_out_unless_wanted(internal: str) -> None:
    assert Whitelist(".*").allows(internal, exclude_internal=False)
    assert not Blacklist("flights").allows(internal)


@pytest.mark.parametrize(("text", "is_open"), [("flights,a-b|C9", False), ("a_b", True), ("flights.*", True)])
def test_only_names_that_are_written_out_need_no_look_for_later_topics(text: str, *, is_open: bool) -> None:
    assert Whitelist(text).is_open is is_open
    assert Blacklist(text).is_open


@pytest.mark.parametrize("text", ["flights(", "*", r"\p{L}+", r"\Qa\E"])
def test_what_is_no_expression_or_only_one_of_java_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="regular expression"):
        Whitelist(text)
