"""Refuses a mirror from a log into itself, which would write each of its records again, without end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..storage import InvalidConfigError, local_path
from .brokers.cluster import Cluster
from .brokers.connections import Connections
from .sources.log_directory import DirectorySources
from .sources.port import AnySources
from .sources.todays_wire import ClusterSources
from .targets.log_directory import DirectoryTargets
from .targets.port import Targets
from .targets.todays_wire import ClusterTargets


def check_not_same_log(sources: AnySources[Any, Any], targets: Targets) -> None:
    """Raises InvalidConfigError if source and target are the same directory, or share a broker.

    A directory and the gateway that serves it are not recognized, nor clusters on older wires. Raises RetriableError if
    no broker answers.
    """
    if isinstance(sources, DirectorySources) and isinstance(targets, DirectoryTargets):
        is_same = _real(sources.directory) == _real(targets.directory)
    elif isinstance(sources, ClusterSources) and isinstance(targets, ClusterTargets):
        is_same = not _brokers(sources.cluster).isdisjoint(_brokers(targets.cluster))
    else:
        is_same = False
    if is_same:
        raise InvalidConfigError(
            f"the source {sources} is the target {targets} itself: topics keep their names, so each record would be "
            "written again to its own topic; name another target"
        )


def _real(directory: str) -> str:
    """Returns a local directory without links, or the URL of a log on an object store."""
    try:
        return str(Path(local_path(directory)).resolve())
    except InvalidConfigError:
        return directory.rstrip("/")


def _brokers(cluster: Cluster) -> frozenset[tuple[str, int]]:
    connections = Connections(cluster)
    try:
        return connections.brokers()
    finally:
        connections.close()
