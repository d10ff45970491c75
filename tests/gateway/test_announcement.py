"""What a gateway logs when it begins to serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_commitlog.gateway.security.users import UsersFile
from tests.support.gateway import serving


def test_it_names_who_may_log_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users = UsersFile(str(tmp_path / "users.json"))
    users.add("alice", "secret")
    caplog.set_level("INFO")
    settings = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "commitlog_users_file": users.path, "node_id": 3}
    with serving(tmp_path / "log", advertised_listeners="SASL_PLAINTEXT://localhost:9094", **settings) as gateway:
        cluster = gateway.context.cluster_id
    first, second = (each.message for each in caplog.records if each.name.endswith("gateway.server"))
    assert first.endswith(f"serves {tmp_path}/log as node 3 of the cluster {cluster}")
    assert second == (
        f"listening on SASL_PLAINTEXT://{gateway.address}, advertised as localhost:9094: open to 1 user of "
        f"{users.path}, by SCRAM-SHA-256, SCRAM-SHA-512"
    )
