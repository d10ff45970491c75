"""Random sets of ACLs: the rules decide what a model decides that was written from Kafka's documentation.

``test_rules_kafka`` compares them with Kafka's own authorizer; the suite gateway-rules of ``tests/torture`` has more.
"""

from __future__ import annotations

import random

import pytest

from tests.support.acls import expected, random_set


@pytest.mark.parametrize("seed", range(10))
def test_the_rules_decide_as_the_model(seed: int) -> None:
    chance = random.Random(seed)
    decisions = []
    for _ in range(50):
        of = random_set(chance)
        rules = of.rules()
        for asked in (*of.asked, *of.asked):  # again, when it is remembered
            decisions.append(rules.allow(asked.client, asked.operation, asked.resource, asked.name))
            assert decisions[-1] == expected(of, asked), (of, asked)
    assert 0.2 < sum(decisions) / len(decisions) < 0.8  # not all of them are easy
