"""Requests about the node and the cluster: ApiVersions, DescribeCluster, FindCoordinator, DescribeLogDirs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ...protocol.apis import APIS
from ...protocol.bodies import ErrorCode
from ...storage import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, LogManager, LogStoreError
from ..context import Context
from ..request import Request
from ..security.rules import Resource
from .authorized_operations import authorized_operations

UNKNOWN_BYTES = -1
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")  # names and versions of clients
_BROKERS, _CONTROLLERS = 1, 2  # the endpoint types of DescribeCluster
_NO_COORDINATOR_VERSIONS = 4  # since this version, one request asks for several coordinators
_NO_COORDINATOR = {
    "node_id": -1,
    "host": "",
    "port": -1,
    "error_code": ErrorCode.coordinator_not_available,
    "error_message": "The coordinator is not available.",
}


def api_versions(request: Request, context: Context) -> Mapping[str, Any]:
    """Answers with the kinds of requests that are served, and their versions."""
    body = request.body
    given = [getattr(body, f"client_software_{each}", "unknown") for each in ("name", "version")]
    if not all(map(_SOFTWARE.fullmatch, given)):
        return {"error_code": ErrorCode.invalid_request}
    return {"api_keys": served_apis(), "finalized_features_epoch": 0}


def served_apis() -> list[Mapping[str, int]]:
    """Returns the table of requests, as ApiVersions shows it."""
    return [{"api_key": key, "min_version": api.lowest, "max_version": api.highest} for key, api in APIS.items()]


def describe_cluster(request: Request, context: Context) -> Mapping[str, Any]:
    """Answers with the nodes."""
    endpoint = getattr(request.body, "endpoint_type", _BROKERS)
    if endpoint == _CONTROLLERS:
        return {"error_code": ErrorCode.mismatched_endpoint_type, "error_message": "this is no controller"}
    if endpoint != _BROKERS:
        message = f"there are no endpoints of type {endpoint}"
        return {"error_code": ErrorCode.unsupported_endpoint_type, "error_message": message}
    return {
        "cluster_id": context.cluster_id,
        "controller_id": context.cluster.controller,
        "brokers": nodes(request, context, "broker_id"),
        "cluster_authorized_operations": authorized_operations(request, context, Resource.CLUSTER, kind="cluster_"),
    }


def nodes(request: Request, context: Context, id_field: str) -> list[Mapping[str, Any]]:
    """Returns the live nodes for an answer; ``id_field`` is the name of the field with the node's id."""
    addresses = context.cluster.addresses  # a node without a listener of this name is not shown, as in Kafka
    found = {node: addresses.get(node, {}).get(request.listener) for node in sorted(context.cluster.view.nodes)}
    found |= {context.config.node_id: context.address_for(request)}
    return [{id_field: node, "host": each.host, "port": each.port} for node, each in found.items() if each is not None]


def find_coordinator(request: Request, context: Context) -> Mapping[str, Any]:
    """Answers with the node that leads the partition of a group or a transactional id."""
    body = request.body
    kind = getattr(body, "key_type", 0)
    topic, homes = (
        (TRANSACTION_STATE_TOPIC, context.transactions.homes) if kind else (GROUP_METADATA_TOPIC, context.groups.homes)
    )
    by_id = {each["node_id"]: each for each in nodes(request, context, "node_id")}

    def found(key: str) -> Mapping[str, Any]:
        if kind not in (0, 1):
            message = f"there is no coordinator of kind {kind}"
            return {**_NO_COORDINATOR, "error_code": ErrorCode.invalid_request, "error_message": message}
        node = by_id.get(context.cluster.leader(topic, homes.home_of(key)).node)
        return _NO_COORDINATOR if node is None else node

    if request.version < _NO_COORDINATOR_VERSIONS:
        return {"error_message": ErrorCode.none.name.upper(), **found(body.key)}  # as a broker says it
    return {"coordinators": [{"error_message": "", **found(key), "key": key} for key in body.coordinator_keys]}


def describe_log_dirs(request: Request, context: Context) -> None:
    """Answers with the sizes of partitions."""
    wanted = request.body.topics
    names = None if wanted is None else {each.topic: frozenset(each.partitions) for each in wanted}
    context.workers.lookups.answer(request, lambda manager: _log_dirs(manager, context, names))


def _log_dirs(manager: LogManager, context: Context, wanted: Mapping[str, Any] | None) -> Mapping[str, Any]:
    total, usable = _space(context)
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": each, "partition_size": _size(manager, name, each), "offset_lag": 0}
                for each in topic.partitions
                if wanted is None or each in wanted[name]
            ],
        }
        for name, topic in context.topics.all().items()
        if wanted is None or name in wanted
    ]
    return {
        "results": [
            {
                "log_dir": context.log_path,
                "topics": topics,
                "total_bytes": total,
                "usable_bytes": usable,
            }
        ]
    }


def _space(context: Context) -> tuple[int, int]:
    """Returns the bytes of the disk, and how many are free; -1 for both if that is unknown, as on an object store."""
    if context.is_remote:
        return UNKNOWN_BYTES, UNKNOWN_BYTES
    space = os.statvfs(context.log_dir)
    return space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize


def _size(manager: LogManager, topic: str, partition: int) -> int:
    try:
        with manager.open_reader(topic, partition, reports_remote=False) as reader:
            return reader.file_bytes()
    except (LogStoreError, OSError):
        return 0
