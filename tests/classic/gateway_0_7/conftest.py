"""A ZooKeeper, as tests of the gateway have it."""

from tests.gateway.conftest import connect, registry, zookeeper

__all__ = ["connect", "registry", "zookeeper"]
