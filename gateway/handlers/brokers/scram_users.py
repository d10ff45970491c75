"""DescribeUserScramCredentials, AlterUserScramCredentials: the users of the file that ``commitlog users`` writes.

The answers are those of ``ScramControlManager`` and ``ScramPublisher``. A password never comes here: a client sends it
salted and hashed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import shortened
from ...context import Context
from ...request import Request
from ...security.scram import ITERATIONS_MIN, salted_credential
from ...security.users import UsersFile
from .file_errors import Error, error_of

Body = Mapping[str, Any]
Kept = dict[str, Mapping[str, Any]]  # credentials by user, then by mechanism

ITERATIONS_MAX = 16_384
SALT_BYTES_MAX = 1_024
_NUMBERS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_TWICE = "A user credential cannot be altered twice in the same request"
_WHY = "No listener of this node has logins: set commitlog.users.file, and a listener with SASL"


def describe_scram_users(request: Request, context: Context) -> Body | None:
    """Answers with the mechanisms and iterations of users: of all, if none is named."""
    users, named = context.users, request.body.users
    if users is None:
        return described_scram_users(request.body, ErrorCode.security_disabled, _WHY)
    names = [each.name for each in named or ()]
    refused = partial(described_scram_users, request.body)
    context.workers.admin.answer(request, lambda _: _answered(lambda: _described(users, names), refused))
    return None


def _described(users: UsersFile, names: Sequence[str]) -> Body:
    kept = users.read()
    asked = Counter(names) if names else dict.fromkeys(sorted(kept), 1)
    return {"results": [_description(name, kept.get(name), times) for name, times in asked.items()]}


def _description(name: str, credentials: Mapping[str, Any] | None, times: int) -> Body:
    if times > 1:
        why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return {"user": name, "error_code": ErrorCode.duplicate_resource, "error_message": shortened(why)}
    if not credentials:
        why = f"Attempt to describe a user credential that does not exist: {name}"
        return {"user": name, "error_code": ErrorCode.resource_not_found, "error_message": shortened(why)}
    found = ((number, credentials.get(mechanism)) for number, mechanism in _NUMBERS.items())
    infos = [{"mechanism": number, "iterations": each.iterations} for number, each in found if each is not None]
    return {"user": name, "credential_infos": infos}


def alter_scram_users(request: Request, context: Context) -> Body | None:
    """Sets and deletes credentials; they are synced, and logins use them, before the answer."""
    users, body = context.users, request.body
    if users is None:
        return altered_scram_users(body, ErrorCode.security_disabled, _WHY)
    refused = partial(altered_scram_users, body)
    context.workers.admin.answer(request, lambda _: _answered(lambda: _altered(users, body), refused))
    return None


def _altered(users: UsersFile, body: Any) -> Body:
    with users.changing() as kept:
        errors = _errors(body, kept)
        for each in body.deletions:
            if each.name not in errors:
                _delete(kept, each.name, _NUMBERS[each.mechanism])
        for each in body.upsertions:
            if each.name not in errors:
                mechanism = _NUMBERS[each.mechanism]
                made = salted_credential(mechanism, each.salted_password, each.salt, each.iterations)
                kept[each.name] = {**kept.get(each.name, {}), mechanism: made}
    results = ((name, *errors.get(name, (ErrorCode.none, None))) for name in _names(body))
    return {"results": [{"user": name, "error_code": code, "error_message": why} for name, code, why in results]}


def _delete(kept: Kept, name: str, mechanism: str) -> None:
    others = {each: credential for each, credential in kept[name].items() if each != mechanism}
    if others:
        kept[name] = others
    else:
        del kept[name]


def _errors(body: Any, kept: Kept) -> Mapping[str, Error]:
    """Returns the first error of each user that has one: a user with an error keeps all credentials as they are."""
    errors: dict[str, Error] = {}
    seen: set[str] = set()
    checks: list[tuple[Any, Callable[[Any], Error | None]]] = [
        *((each, lambda deletion: _problem_of_deletion(deletion, kept)) for each in body.deletions),
        *((each, _problem_of_upsertion) for each in body.upsertions),
    ]
    for each, check in checks:
        error = (ErrorCode.duplicate_resource, _TWICE) if each.name in seen else check(each)
        seen.add(each.name)
        if error is not None:
            errors.setdefault(each.name, error)
    return errors


def _problem(name: str, mechanism: int) -> Error | None:
    if not name:
        return ErrorCode.unacceptable_credential, "Username must not be empty"
    if mechanism not in _NUMBERS:
        return ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"
    return None


def _problem_of_deletion(deletion: Any, kept: Kept) -> Error | None:
    problem = _problem(deletion.name, deletion.mechanism)
    if problem is None and _NUMBERS[deletion.mechanism] not in kept.get(deletion.name, {}):
        return ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
    return problem


def _problem_of_upsertion(upsertion: Any) -> Error | None:
    problem = _problem(upsertion.name, upsertion.mechanism)
    if problem is not None:
        return problem
    reasons = (
        (upsertion.iterations < ITERATIONS_MIN, "Too few iterations"),
        (upsertion.iterations > ITERATIONS_MAX, "Too many iterations"),
        (not upsertion.name.isprintable(), "Username must be printable"),
        (not 0 < len(upsertion.salt) <= SALT_BYTES_MAX, f"The salt must have 1 to {SALT_BYTES_MAX} bytes"),
        (not upsertion.salted_password, "The salted password must not be empty"),
    )
    why = next((text for is_wrong, text in reasons if is_wrong), None)
    return None if why is None else (ErrorCode.unacceptable_credential, why)


def _answered(task: Callable[[], Body], refused: Callable[[ErrorCode, str | None], Body]) -> Body:
    """Returns what ``task`` returns; if the file cannot be used, the refusal."""
    found: list[Body] = []
    code, why = error_of(lambda: found.append(task()), "users")
    return refused(code, why) if code else found[0]


def _names(body: Any) -> Iterable[str]:
    return dict.fromkeys(each.name for each in (*body.deletions, *body.upsertions))


def described_scram_users(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to a DescribeUserScramCredentials that is refused."""
    results = [{"user": "", "error_code": code, "error_message": why} for _ in body.users or ()]  # as a broker
    return {"error_code": code, "error_message": why, "results": results}


def altered_scram_users(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to an AlterUserScramCredentials that is refused: the error of each user."""
    return {"results": [{"user": name, "error_code": code, "error_message": why} for name in _names(body)]}
