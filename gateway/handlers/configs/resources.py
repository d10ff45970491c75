"""The resources that have configs: topics, nodes, and groups of consumers."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ....protocol.bodies import ErrorCode
from ....protocol.errors import RequestError
from ...context import Context
from ..metadata import is_legal


class Resource(IntEnum):
    """The kinds of resources with configs (``ConfigResource.Type``)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


LOGGER, CLIENT_METRICS = 8, 16  # kinds of a broker alone


def is_of_no_kind(asked: Any) -> bool:
    """Whether no broker knows the kind of a resource."""
    return asked.resource_type not in {*Resource, LOGGER, CLIENT_METRICS}


class Source(IntEnum):
    """The origin of a config's value (``DescribeConfigsResponse.ConfigSource``)."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


def check_resource(context: Context, asked: Any) -> None:
    """Raises RequestError for a resource that cannot have configs; a topic may be missing."""
    if asked.resource_type == Resource.TOPIC:
        if not is_legal(asked.resource_name):
            raise _invalid(f"a topic cannot be named {asked.resource_name!r}", ErrorCode.invalid_topic_exception)
    elif asked.resource_type == Resource.BROKER:
        _check_node(context, asked.resource_name)
    elif asked.resource_type == Resource.GROUP:
        if asked.resource_name == "":
            raise _invalid("a group has a name: groups have no settings together, but those of the nodes")
    else:
        raise _invalid(f"there are no configs of resources of kind {asked.resource_type}")


def _check_node(context: Context, name: str) -> None:
    """Raises RequestError unless the resource is a live node, or all nodes, which share the directory's settings."""
    if name == "":
        return
    if not (name.isascii() and name.isdigit()):
        raise _invalid(f"the name of a broker resource must be a node's number, or empty for all nodes; not {name!r}")
    # This one lives, though the view lacks it just after the start.
    nodes = [str(node) for node in sorted({context.cluster.node, *context.cluster.view.nodes})]
    if name not in nodes:
        raise _invalid(f"there is no node {name}; live nodes: {', '.join(nodes)}")


def check_this_node(context: Context, name: str) -> None:
    """Raises RequestError for another node: only a node itself knows its settings and can check its files."""
    own = context.config.node_id
    if name not in ("", str(own)):
        raise _invalid(f"this is node {own}: ask node {name} for its configs")


def _invalid(text: str, code: ErrorCode = ErrorCode.invalid_request) -> RequestError:
    return RequestError(code, text)
