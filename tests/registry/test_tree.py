"""The nodes in memory: how much of them there may be."""

from __future__ import annotations

import pytest

from pyspark_commitlog.registry import tree as module
from pyspark_commitlog.registry.errors import RegistryError
from pyspark_commitlog.registry.port import ANY_VERSION
from pyspark_commitlog.registry.tree import Operation, Tree


def change(tree: Tree, operations: list[Operation]) -> None:
    tree.apply(tree.number + 1, operations)


def test_the_bytes_of_persistent_nodes_are_known_through_all_changes() -> None:
    tree = Tree()
    change(tree, tree.plan_create("/a/b", b"12345", None))
    change(tree, tree.plan_create("/a/mine", b"x" * 1000, "session"))
    made = tree.kept_bytes
    assert made == 2 * module._NODE_BYTES + len("/a") + len("/a/b12345")
    change(tree, tree.plan_set("/a/b", b"1", ANY_VERSION))
    assert tree.kept_bytes == made - 4
    assert Tree.decode(tree.number, tree.encode()).kept_bytes == tree.kept_bytes
    for path in ("/a/mine", "/a/b", "/a"):
        change(tree, tree.plan_delete(path, ANY_VERSION))
    assert tree.kept_bytes == 0


def test_a_full_registry_takes_no_persistent_node_until_one_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 2000)
    tree = Tree()
    change(tree, tree.plan_create("/long", b"x" * 1500, None))
    for path in ("/consumers/g/offsets/t/0", "/" + "x" * 400):  # by the parents, and by the name
        with pytest.raises(RegistryError, match="the registry has 1605 bytes of persistent nodes, of at most 2000"):
            tree.plan_create(path, None, None)
    change(tree, tree.plan_create("/brokers/ids/1", b"x" * 1500, "session"))  # a node must be able to start
    change(tree, tree.plan_set("/long", b"x", ANY_VERSION))
    change(tree, tree.plan_create("/consumers/g/offsets/t/0", None, None))
