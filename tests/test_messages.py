"""Values of several kinds that share a queue, a set or the keys of a dict are compared by what they are.

Two NamedTuples with the same fields are equal, whatever their classes: of ``Freed(partition)`` and
``Overdue(partition)``, a set keeps one. A frozen dataclass equals only its own kind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.test_layering import FOLDERS, ROOT, sources

COMPARING = frozenset(  # by their first parameter; a list and a deque are searched and drained by dict.fromkeys, too
    [
        "Queue",
        "SimpleQueue",
        "LifoQueue",
        "PriorityQueue",
        "deque",
        "Lane",
        "set",
        "frozenset",
        "Set",
        "WeakSet",
        "AbstractSet",
        "dict",
        "defaultdict",
        "Mapping",
        "MutableMapping",
        "Counter",
        "OrderedDict",
    ]
)
TUPLES = ("NamedTuple", "IntEnum", "StrEnum", "IntFlag")


def shared_tuples(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yields where a container is declared to have several kinds of tuples that can be equal."""
    kinds = dict(_kinds(trees.values()))
    for path, tree in trees.items():
        aliases = dict(_aliases(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Subscript) and _name(node.value) in COMPARING:
                names = [each for each in _members(_first(node.slice), aliases) if each in kinds]
                fields = [kinds[each] for each in dict.fromkeys(names)]
                if len(set(fields)) < len(fields):
                    yield f"{path}:{node.lineno}: {ast.unparse(node)}"


def _kinds(trees: Iterable[ast.Module]) -> Iterator[tuple[str, int]]:
    """Yields the classes whose instances equal those of other classes, with their numbers of fields."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(_name(base) in TUPLES for base in node.bases):
                yield node.name, sum(isinstance(each, ast.AnnAssign) for each in node.body)


def _aliases(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _members(node: ast.expr, aliases: Mapping[str, ast.expr]) -> Iterator[str]:
    if isinstance(node, ast.BinOp):
        yield from _members(node.left, aliases)
        yield from _members(node.right, aliases)
    elif _name(node) in aliases:
        yield from _members(aliases[_name(node)], {})
    else:
        yield _name(node)


def _first(node: ast.expr) -> ast.expr:
    return node.elts[0] if isinstance(node, ast.Tuple) else node


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def test_no_container_has_several_kinds_of_tuples_that_can_be_equal() -> None:
    ours = [path for path in sources() if path.startswith(FOLDERS)]
    assert list(shared_tuples({path: ast.parse((ROOT / path).read_text()) for path in ours})) == []


@pytest.mark.parametrize(
    "declared",
    [
        "queue: SimpleQueue[One | Other | None]",
        "queue: SimpleQueue[Message]",
        "seen: set[One | Other]",
        "by_message: dict[Message, int]",
        "codes = dict[Code | Kind, str]()",
    ],
)
def test_such_a_container_is_found(declared: str) -> None:
    classes = "class One(NamedTuple):\n    name: str\nclass Other(NamedTuple):\n    name: str\n"
    enums = "class Code(IntEnum):\n    A = 1\nclass Kind(IntEnum):\n    B = 1\n"
    tree = ast.parse(f"{classes}{enums}Message = One | Other\n{declared}\n")
    assert list(shared_tuples({"messages.py": tree}))


@pytest.mark.parametrize("declared", ["seen: set[One | Longer]", "seen: set[One | Own]", "steps: list[One]"])
def test_kinds_that_cannot_be_equal_may_share_one(declared: str) -> None:
    classes = "class One(NamedTuple):\n    name: str\nclass Longer(NamedTuple):\n    name: str\n    number: int\n"
    tree = ast.parse(f"{classes}class Own:\n    name: str\n{declared}\n")
    assert not list(shared_tuples({"messages.py": tree}))
