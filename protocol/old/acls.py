"""DescribeAcls, CreateAcls and DeleteAcls of version 0, which name resources without a kind of pattern."""

from __future__ import annotations

from .shapes import ERROR, INT8, MS, NULLABLE_STRING, STRING, struct

_RULE = {"principal": STRING, "host": STRING, "operation": INT8, "permission_type": INT8}
_FILTER = {
    "resource_type_filter": INT8,
    "resource_name_filter": NULLABLE_STRING,
    "principal_filter": NULLABLE_STRING,
    "host_filter": NULLABLE_STRING,
    "operation": INT8,
    "permission_type": INT8,
}
_RESOURCE = {"resource_type": INT8, "resource_name": STRING}
_CODE = {"error_code": ERROR, "error_message": NULLABLE_STRING}

DESCRIBE_ACLS_REQUEST_0 = struct("DescribeAclsRequest", **_FILTER)
DESCRIBE_ACLS_ANSWER_0 = struct(
    "DescribeAclsResponse",
    throttle_time=MS,
    **_CODE,
    resources=[struct("DescribeAclsResource", **_RESOURCE, acls=[struct("AclDescription", **_RULE)])],
)
CREATE_ACLS_REQUEST_0 = struct("CreateAclsRequest", creations=[struct("AclCreation", **_RESOURCE, **_RULE)])
CREATE_ACLS_ANSWER_0 = struct("CreateAclsResponse", throttle_time=MS, results=[struct("AclCreationResult", **_CODE)])
DELETE_ACLS_REQUEST_0 = struct("DeleteAclsRequest", filters=[struct("DeleteAclsFilter", **_FILTER)])
_DELETED = struct("DeleteAclsMatchingAcl", **_CODE, **_RESOURCE, **_RULE)
DELETE_ACLS_ANSWER_0 = struct(
    "DeleteAclsResponse",
    throttle_time=MS,
    filter_results=[struct("DeleteAclsFilterResult", **_CODE, matching_acls=[_DELETED])],
)
