"""There are no ACLs: clients get what a broker without an authorizer answers."""

from __future__ import annotations

import pytest

from tests.support.gateway import WireClient

SECURITY_DISABLED = 54
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
RULE = {"resource_type": TOPIC, "resource_name": "t", "resource_pattern_type": LITERAL, "principal": "User:a"}
FILTER = {"resource_type_filter": TOPIC, "resource_name_filter": None, "principal_filter": None, "host_filter": None}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_neither_shown_nor_made_nor_deleted(client: WireClient, version: int) -> None:
    how = {"operation": READ, "permission_type": ALLOW}
    described = client.ask(29, version, **FILTER, **how)
    assert (described.error_code, described.resources) == (SECURITY_DISABLED, ())
    assert "commitlog.rules.file" in described.error_message
    created = client.ask(30, version, creations=[{**RULE, "host": "*", **how}] * 2).results
    deleted = client.ask(31, version, filters=[{**FILTER, **how}]).filter_results
    assert [int(each.error_code) for each in (*created, *deleted)] == [SECURITY_DISABLED] * 3
