"""A fixture that runs a module's tests on a log directory and, by ``make test-matrix``, on an object store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs.directories import directory_with_internal_topics


def log_of_either_end(of_directories: Mapping[str, str]) -> Any:
    """Returns the fixture. ``of_directories``: why a test is not run on an object store, by its name."""

    @pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.matrix)])
    def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> str:
        """A log directory whose internal topics have one partition each, or the URL of a log.

        Creating fifty partitions of both takes long.
        """
        if request.param == "directory":
            return directory_with_internal_topics(tmp_path / "log")
        if reason := of_directories.get(request.node.originalname):
            pytest.skip(reason)
        url: str = request.getfixturevalue("bucket")
        return url

    return log_dir
