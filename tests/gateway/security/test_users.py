"""The file of users."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pyspark_commitlog.gateway.config import GatewayConfig
from pyspark_commitlog.gateway.security.listener import made_security
from pyspark_commitlog.gateway.security.scram import HASHES, has_password
from pyspark_commitlog.gateway.security.users import UsersFile
from pyspark_commitlog.storage import InvalidConfigError


def test_a_user_is_found_with_the_last_password(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    writer, reader = UsersFile(str(path)), UsersFile(str(path))
    assert writer.add("alice", "first")
    assert reader.find("bob", "SCRAM-SHA-256").is_decoy
    assert not writer.add("alice", "second")
    assert writer.add("bob", "third")
    for mechanism in HASHES:
        for user, password in (("alice", "second"), ("bob", "third")):
            credential = reader.find(user, mechanism)
            assert not credential.is_decoy
            assert has_password(mechanism, credential, password)
    writer.remove("alice")
    assert reader.find("alice", "SCRAM-SHA-256").is_decoy
    assert list(reader.read()) == ["bob"]


def test_the_file_has_no_password_and_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    UsersFile(str(path)).add("alice", "a password to search for")
    assert "search for" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = json.loads(path.read_text())["users"]["alice"]
    assert set(found) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert set(found["SCRAM-SHA-256"]) == {"salt", "iterations", "stored_key", "server_key"}


@pytest.mark.parametrize("mechanism", sorted(HASHES))
def test_a_user_that_does_not_exist_looks_like_one_that_does(tmp_path: Path, mechanism: str) -> None:
    path = str(tmp_path / "users.json")
    users = UsersFile(path)
    users.add("alice", "a", iterations=9000)
    users.add("bob", "b", iterations=9000)
    users.add("carol", "c", iterations=5000)
    nobody, alice = users.find("nobody", mechanism), users.find("alice", mechanism)
    assert [len(each) for each in (nobody.salt, nobody.stored_key, nobody.server_key)] == [
        len(each) for each in (alice.salt, alice.stored_key, alice.server_key)
    ]
    assert nobody.iterations == 9000  # as most have
    assert nobody.salt != users.find("noone", mechanism).salt

    users.add("alice", "another")  # and another process, such as a gateway that is started again
    assert UsersFile(path).find("nobody", mechanism) == nobody


def test_a_file_from_before_there_were_decoys_gets_their_secret_with_the_next_change(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    users = UsersFile(str(path))
    users.add("alice", "a")
    document = json.loads(path.read_text())
    del document["secret"]
    path.write_text(json.dumps(document))
    old = UsersFile(str(path))
    assert old.find("nobody", "SCRAM-SHA-256") == old.find("nobody", "SCRAM-SHA-256")
    users.add("bob", "b")
    assert users.find("nobody", "SCRAM-SHA-256") == UsersFile(str(path)).find("nobody", "SCRAM-SHA-256")


@pytest.mark.parametrize(
    "text", ["", "secret", "[]", '{"version": 2, "users": {}}', '{"version": 1, "users": {"a": {"SCRAM-SHA-256": {}}}}']
)
def test_a_file_of_something_else_is_named_without_its_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(InvalidConfigError, match=r"users\.json: not a file of users") as error:
        UsersFile(str(path)).read()
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    ("user", "password", "said"),
    [("", "x", "cannot be named"), ("a\0b", "x", "cannot be named"), ("a", "", "is empty")],
)
def test_a_user_that_could_not_log_in_is_refused(tmp_path: Path, user: str, password: str, said: str) -> None:
    with pytest.raises(InvalidConfigError, match=said):
        UsersFile(str(tmp_path / "users.json")).add(user, password)
    assert not (tmp_path / "users.json").exists()


def test_removing_nobody_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="there is no user 'alice'"):
        UsersFile(str(tmp_path / "users.json")).remove("alice")


def test_a_gateway_without_the_file_names_the_command_that_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    config = GatewayConfig(listeners="SASL_PLAINTEXT://127.0.0.1:0", commitlog_users_file=str(path))
    with pytest.raises(InvalidConfigError, match=f"no such file; .* commitlog users --file {path} --add USER"):
        made_security(config)


def test_a_users_file_that_cannot_be_read_for_a_while_is_not_replaced_by_one_with_a_single_user(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.symlink_to(path)  # as if its file system answered with an error
    with pytest.raises(OSError, match="symbolic links"):
        UsersFile(str(path)).add("alice", "a")
    assert path.is_symlink()
    path.unlink()
    users = UsersFile(str(path))
    users.add("alice", "a")
    path.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        users.add("carol", "c")
    assert not path.exists()
    (tmp_path / "away").rename(path)
    users.add("carol", "c")
    assert list(users.read()) == ["alice", "carol"]
