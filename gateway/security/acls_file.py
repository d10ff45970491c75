"""The file of the ACLs that clients created. The gateway writes it; all nodes over a log share it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...storage import PolicyViolationError
from .acls import Acl, AclOperation, Pattern, PatternType, PermissionType, ResourceType
from .whole_file import Form, KeptFile

VERSION = 1
FILE_CHARACTERS_MAX = 32 << 20  # about 100,000 ACLs; each change writes them all

Acls = Sequence[Acl]


def acls_file(path: str) -> KeptFile[Acls]:
    """Returns the file of ACLs at ``path``.

    Raises the errors of KeptFile; a change also raises PolicyViolationError if the file becomes too large.
    """
    return KeptFile(path, "ACLs", Form(VERSION, (), lambda document: tuple(map(_read, document["acls"])), _written))


def _written(acls: Acls) -> str:
    lines = ",\n".join(json.dumps(_document(each), ensure_ascii=False) for each in acls)
    if len(lines) > FILE_CHARACTERS_MAX:
        raise PolicyViolationError(
            f"the ACLs would take more than {FILE_CHARACTERS_MAX} characters: use prefixes, or delete some"
        )
    return f'{{"version": {VERSION}, "acls": [\n{lines}\n]}}\n'


def _document(acl: Acl) -> Mapping[str, str]:
    return {
        "resource_type": acl.pattern.resource_type.name,
        "pattern_type": acl.pattern.pattern_type.name,
        "resource_name": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission_type": acl.permission_type.name,
    }


def _read(document: Mapping[str, Any]) -> Acl:
    pattern = Pattern(
        ResourceType[document["resource_type"]],
        PatternType[document["pattern_type"]],
        str(document["resource_name"]),
    )
    how = AclOperation[document["operation"]], PermissionType[document["permission_type"]]
    acl = Acl(pattern, str(document["principal"]), str(document["host"]), *how)
    problem = acl.problem()
    if problem is not None:
        raise ValueError(problem)
    return acl
