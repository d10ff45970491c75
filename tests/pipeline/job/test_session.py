"""The session of a command that starts Spark itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyspark_commitlog.pipeline.job import session


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The folders of settings of sessions that are started; none is started."""
    folders: list[str | None] = []
    monkeypatch.setattr(session, "is_submitted", lambda: False)
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: folders.append(os.environ.get("SPARK_CONF_DIR")))
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.setenv(name, "")  # so that what a test sets is taken back
        monkeypatch.delenv(name)
    return folders


def test_a_command_takes_the_settings_of_the_package_where_none_are_named(started: list[str | None]) -> None:
    session.job_session("export")
    [folder] = started
    assert folder is not None
    assert {"log4j2.properties", "spark-defaults.conf"} <= {each.name for each in Path(folder).iterdir()}


@pytest.mark.parametrize(("name", "folder"), [("SPARK_CONF_DIR", "/etc/spark"), ("SPARK_HOME", None)])
def test_a_command_leaves_settings_that_are_named(
    name: str, folder: str | None, started: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "/etc/spark")
    session.job_session("export")
    assert started == [folder]
