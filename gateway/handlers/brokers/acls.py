"""DescribeAcls, CreateAcls, DeleteAcls: there are none, as on a broker without an authorizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....protocol import ErrorCode
from ...context import Context
from ...request import Request

_WHY = "the gateway has no ACLs: permissions are in the file that commitlog.rules.file names"


def describe_acls(request: Request, context: Context) -> Mapping[str, Any]:
    """Answers that there are no ACLs."""
    return described_acls(request.body, ErrorCode.security_disabled, _WHY)


def create_acls(request: Request, context: Context) -> Mapping[str, Any]:
    """Answers that there are no ACLs."""
    return created_acls(request.body, ErrorCode.security_disabled, _WHY)


def delete_acls(request: Request, context: Context) -> Mapping[str, Any]:
    """Answers that there are no ACLs."""
    return deleted_acls(request.body, ErrorCode.security_disabled, _WHY)


def described_acls(body: Any, code: ErrorCode, why: str | None = None) -> Mapping[str, Any]:
    """Returns the answer to a DescribeAcls that is refused."""
    return {"error_code": code, "error_message": why}


def created_acls(body: Any, code: ErrorCode, why: str | None = None) -> Mapping[str, Any]:
    """Returns the answer to a CreateAcls that is refused."""
    return {"results": [{"error_code": code, "error_message": why} for _ in body.creations]}


def deleted_acls(body: Any, code: ErrorCode, why: str | None = None) -> Mapping[str, Any]:
    """Returns the answer to a DeleteAcls that is refused."""
    return {"filter_results": [{"error_code": code, "error_message": why} for _ in body.filters]}
