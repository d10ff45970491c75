"""Random sets of ACLs: the rules and filters decide what Kafka's StandardAuthorizer decides."""

from __future__ import annotations

import random

import pytest

from tests.support.acls import AclSet, random_set
from tests.support.kafka.clients import ask

SETS_A_REQUEST = 500


def decided(of: AclSet) -> dict[str, list[int]]:
    rules = of.rules()
    return {
        "allowed": [rules.allow(each.client, each.operation, each.resource, each.name) for each in of.asked],
        "found": [sum(map(each.matches, rules.acls())) for each in of.filters],
    }


@pytest.mark.only_all
@pytest.mark.parametrize("seed", range(20))
def test_the_rules_decide_as_kafkas_authorizer(seed: int) -> None:
    chance = random.Random(seed)
    sets = [random_set(chance) for _ in range(SETS_A_REQUEST)]
    rows = ask({"do": "authorize", "sets": [each.as_json() for each in sets]}, timeout_s=120)
    for of, row in zip(sets, rows, strict=True):
        assert decided(of) == row, of
