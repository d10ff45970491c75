"""DescribeAcls, CreateAcls, DeleteAcls: what users may do, as a broker with an authorizer answers.

The answers are those of ``AclApis`` and ``AclControlManager``. Without rules they are those of a broker without an
authorizer. A rule of the file of rules is shown as ACLs, which cannot be deleted here: a person wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ....protocol.bodies import ErrorCode
from ...context import Context
from ...request import Request
from ...security.acls import Acl, AclFilter, AclOperation, FileAcl, Pattern, PatternType, PermissionType, ResourceType
from ...security.rule_store import RuleStore
from .file_errors import FINE, error_of

Body = Mapping[str, Any]

_ONLY_LITERAL = 0  # the version that has no kinds of patterns
_WHY = "No Authorizer is configured: set commitlog.rules.file or commitlog.acls.file"


def describe_acls(request: Request, context: Context) -> Body | None:
    """Answers with the ACLs that a filter finds."""
    rules, wanted = context.rules, _filter(request.body)
    if rules is None:
        return described_acls(request.body, ErrorCode.security_disabled, _WHY)
    problem = wanted.problem()
    if problem is not None:
        return described_acls(request.body, ErrorCode.invalid_request, problem)
    only_literal = request.version == _ONLY_LITERAL
    current = rules.current()
    context.answer_with(request, lambda: _description(current.acls(), wanted, only_literal=only_literal), current.count)
    return None


def _description(acls: Iterable[Acl], wanted: AclFilter, *, only_literal: bool) -> Body:
    by_pattern: dict[Pattern, list[Body]] = {}
    for each in acls:
        if wanted.matches(each) and not (only_literal and each.pattern.pattern_type is not PatternType.LITERAL):
            by_pattern.setdefault(each.pattern, []).append(_entry(each))
    return {"resources": [{**_resource(pattern), "acls": found} for pattern, found in by_pattern.items()]}


def create_acls(request: Request, context: Context) -> Body | None:
    """Creates ACLs; they are synced and in force here before the answer."""
    return _changed(request, context, _created, created_acls)


def _changed(
    request: Request,
    context: Context,
    change: Callable[[RuleStore, Any], Body],
    refused: Callable[[Any, ErrorCode, str], Body],
) -> Body | None:
    """Changes the ACLs in the thread of administrators, which answers; without rules, returns the refusal."""
    rules = context.rules
    if rules is None:
        return refused(request.body, ErrorCode.security_disabled, _WHY)
    context.workers.admin.answer(request, lambda _: change(rules, request.body))
    return None


def _created(rules: RuleStore, body: Any) -> Body:
    acls = [_acl(each) for each in body.creations]
    problems = [each.problem() for each in acls]
    valid = [acl for acl, problem in zip(acls, problems, strict=True) if problem is None]
    code, why = error_of(lambda: rules.create(valid), "ACLs") if valid else FINE
    failed = {"error_code": code, "error_message": why}
    return {
        "results": [
            failed if problem is None else {"error_code": ErrorCode.invalid_request, "error_message": problem}
            for problem in problems
        ]
    }


def delete_acls(request: Request, context: Context) -> Body | None:
    """Deletes the ACLs that filters find; this is synced and in force here before the answer."""
    return _changed(request, context, _deleted, deleted_acls)


def _deleted(rules: RuleStore, body: Any) -> Body:
    filters = [_filter(each) for each in body.filters]
    problems = [each.problem() for each in filters]
    found: list[list[Acl]] = []
    valid = [each for each, problem in zip(filters, problems, strict=True) if problem is None]
    code, why = error_of(lambda: found.extend(rules.delete(valid)), "ACLs") if valid else FINE
    if code:
        return deleted_acls(body, code, why)
    matches = iter(found)
    return {
        "filter_results": [
            {"matching_acls": [_matching(acl) for acl in next(matches)]}
            if problem is None
            else {"error_code": ErrorCode.invalid_request, "error_message": problem}
            for problem in problems
        ]
    }


def _matching(acl: Acl) -> Body:
    kept: Body = {}
    if isinstance(acl, FileAcl):
        why = f"this is {acl.rule} of the file that commitlog.rules.file names: delete it there"
        kept = {"error_code": ErrorCode.policy_violation, "error_message": why}
    return {**kept, **_resource(acl.pattern), **_entry(acl)}


def _acl(given: Any) -> Acl:
    """Returns the ACL of an entry of a request."""
    how = PatternType(getattr(given, "resource_pattern_type", PatternType.LITERAL))
    pattern = Pattern(ResourceType(given.resource_type), how, given.resource_name)
    kind = PermissionType(given.permission_type)
    return Acl(pattern, given.principal, given.host, AclOperation(given.operation), kind)


def _filter(given: Any) -> AclFilter:
    """Returns the filter of a request, or of an entry of one."""
    return AclFilter(
        ResourceType(given.resource_type_filter),
        PatternType(getattr(given, "pattern_type_filter", PatternType.LITERAL)),
        given.resource_name_filter,
        given.principal_filter,
        given.host_filter,
        AclOperation(given.operation),
        PermissionType(given.permission_type),
    )


def _resource(pattern: Pattern) -> Body:
    kind, how, name = pattern
    return {"resource_type": int(kind), "resource_name": name, "pattern_type": int(how)}


def _entry(acl: Acl) -> Body:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission_type),
    }


def described_acls(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to a DescribeAcls that is refused."""
    return {"error_code": code, "error_message": why}


def created_acls(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to a CreateAcls that is refused."""
    return {"results": _refused(body.creations, code, why)}


def deleted_acls(body: Any, code: ErrorCode, why: str | None = None) -> Body:
    """Returns the answer to a DeleteAcls that is refused."""
    return {"filter_results": _refused(body.filters, code, why)}


def _refused(items: Sequence[Any], code: ErrorCode, why: str | None) -> list[Body]:
    return [{"error_code": code, "error_message": why}] * len(items)
