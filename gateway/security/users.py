"""UsersFile: the users that may log in, with their SCRAM credentials. ``commitlog users`` writes it."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from ...storage import InvalidConfigError
from .decoys import SECRET_BYTES, Decoys
from .scram import HASHES, ITERATIONS, ITERATIONS_MIN, Credential, made_credential
from .whole_file import Stamp, locked, replace, stamp

VERSION = 1

Users = Mapping[str, Mapping[str, Credential]]  # by name, then by mechanism


class UsersFile:
    """The file of users. Each change replaces it as a whole; :meth:`find` reads it again when it has changed.

    For any thread.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = Lock()  # Guards what was read of the file.
        self._users: Users = {}
        self._own_secret = secrets.token_bytes(SECRET_BYTES)  # for a file without one
        self._decoys = Decoys(self._own_secret, {})
        self._seen: Stamp | None = None  # the state of the file when it was read
        self._was_there = False  # since this object was made

    def find(self, user: str, mechanism: str) -> Credential:
        """Returns the stored credential; a decoy if there is no such user. Raises what :meth:`read` raises."""
        with self._lock:
            seen = stamp(self.path)
            if seen is None or seen != self._seen:
                self._users, secret = self._load()
                self._decoys, self._seen = Decoys(secret or self._own_secret, self._users), seen
            decoy = self._decoys.credential(user, mechanism)  # in any case, for it takes time
            return self._users.get(user, {}).get(mechanism, decoy)

    def read(self) -> Users:
        """Returns all users.

        Raises OSError if the file is missing, and InvalidConfigError if it is not a file of users.
        """
        return self._load()[0]

    def _load(self) -> tuple[Users, bytes]:
        """Returns all users, and the secret for decoys; the secret is missing in files from before decoys existed."""
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        self._was_there = True
        try:
            document = json.loads(text)
            if document["version"] != VERSION:
                raise ValueError
            users = {
                user: {mechanism: _read(each) for mechanism, each in of_user.items() if mechanism in HASHES}
                for user, of_user in document["users"].items()
            }
            return users, base64.b64decode(document.get("secret", ""), validate=True)
        except (ValueError, TypeError, KeyError, AttributeError):  # the text of the error could have a part of the file
            raise InvalidConfigError(f"{self.path}: not a file of users, as `commitlog users` writes it") from None

    def add(self, user: str, password: str, iterations: int = ITERATIONS) -> bool:
        """Adds a user or changes its password; returns whether it is new.

        Raises InvalidConfigError for a bad argument.
        """
        if not user or not user.isprintable():
            raise InvalidConfigError(f"a user cannot be named {user!r}")
        if not password:
            raise InvalidConfigError("the password is empty")
        if iterations < ITERATIONS_MIN:
            raise InvalidConfigError(f"{iterations} iterations are too few: clients require at least {ITERATIONS_MIN}")
        made = {mechanism: made_credential(mechanism, password, iterations) for mechanism in HASHES}
        with self.changing() as users:
            is_new = user not in users
            users[user] = made
        return is_new

    def remove(self, user: str) -> None:
        """Removes a user. Raises InvalidConfigError if there is none of that name."""
        with self.changing() as users:
            if users.pop(user, None) is None:
                raise InvalidConfigError(f"{self.path}: there is no user {user!r}")

    @contextmanager
    def changing(self) -> Iterator[dict[str, Mapping[str, Credential]]]:
        """Yields the users for changes, then replaces the file if anything changed; it is synced then.

        Raises the errors of :meth:`read`, but a file that never was there has no users.
        """
        with locked(self.path):
            try:
                found, secret = self._load()
            except FileNotFoundError:
                if self._was_there:  # it has disappeared: a new one would have none of the users
                    raise
                found, secret = {}, b""
            users = dict(found)
            yield users
            if users == found and secret:
                return
            kept = base64.b64encode(secret or secrets.token_bytes(SECRET_BYTES)).decode()
            document = {"version": VERSION, "secret": kept, "users": _document(users)}
            replace(self.path, json.dumps(document, indent=1))
            self._was_there = True


def _document(users: Users) -> Mapping[str, Any]:
    return {user: {name: _written(each) for name, each in of_user.items()} for user, of_user in sorted(users.items())}


def _written(credential: Credential) -> Mapping[str, Any]:
    return {
        "salt": base64.b64encode(credential.salt).decode(),
        "iterations": credential.iterations,
        "stored_key": base64.b64encode(credential.stored_key).decode(),
        "server_key": base64.b64encode(credential.server_key).decode(),
    }


def _read(document: Mapping[str, Any]) -> Credential:
    salt, stored, server = (
        base64.b64decode(document[name], validate=True) for name in ("salt", "stored_key", "server_key")
    )
    return Credential(salt, int(document["iterations"]), stored, server)
