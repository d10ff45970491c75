"""A store is checked from any program, also from one that begins at once when it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_commitlog.storage.bucket.stores import apart
from pyspark_commitlog.storage.errors import ObjectStoreError, StorageError
from pyspark_commitlog.storage.verdicts import Verdict
from tests.support.ports import free_port
from tests.support.stores.seaweed import SeaweedFS

PROGRAM = """
print("begins", flush=True)
from pyspark_commitlog.storage.bucket.root import open_root
print(open_root("s3://logs/apart", create=True).state.log_id)
"""


@pytest.mark.slow
@pytest.mark.only_all
def test_a_program_that_begins_when_it_is_imported_makes_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    with SeaweedFS(tmp_path / "seaweed") as server:
        server.reach(monkeypatch)
        command = [sys.executable, str(tmp_path / "program.py")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("begins") == 1


def test_a_store_that_does_not_answer_is_no_store_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ObjectStoreError, match="s3://nowhere/fs-check-"):
        apart.check_store_apart("s3://nowhere")


def test_findings_come_as_they_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_PROGRAM", 'print(\'a warning\'); print(\'[["lists", "warning", "slow"]]\')')
    (found,) = apart.check_store_apart("s3://bucket")
    assert found == ("lists", Verdict.WARNING, "slow")


def test_an_interpreter_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_PROGRAM", "import nothing_of_this_name")
    with pytest.raises(StorageError, match="s3://bucket: the check of the store failed: ModuleNotFoundError"):
        apart.check_store_apart("s3://bucket")
