"""Small mistakes put into ``storage/`` and the log of 0.7, one at a time, by chance: do the tests of the module notice?

Each mutant is a copy of the tree with one place changed: a comparison, a sign, a constant, a condition, a result, a
call left out. The JIT is off, so that kernels count too. A mutant that no test notices is told with its place: it is a
gap in the tests, or a change that makes no difference. None is a fault of the run.
"""

from __future__ import annotations

import ast
import copy
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.torture.suite import Case, Run, Suite

ROOT = Path(__file__).parents[2]
TESTED_S = 30  # of CPU time: then no further test is begun
HANGS_S = 60  # of CPU time: a test that is not done by then is told
WAITED_S = 600  # in a machine that does other things too
TIME_IS_OVER = 100  # an exit code of no pytest
PRELOADED = [
    "numpy",
    "numba",
    "pyarrow",
    "pytest",
    "hypothesis",
    "hypothesis.stateful",
    "crc32c",
    "fastcrc",
    "zstandard",
]
CHANGED = ("storage", "classic/log_0_7", "classic/upgrade")
CONTROL_EVERY = 25  # mutants: the same tests must pass in the tree as it is
# Needs a broker, Spark or several processes at once.
NOT_FOR_MUTANTS = ("tests.support.kafka", "import pyspark", "from pyspark.", "SPAWN.Event")


class Site(NamedTuple):
    """A place that can be changed, and how."""

    path: Path  # of the module, from the root
    node: int  # in the order of ast.walk
    change: str

    def __str__(self) -> str:
        return f"{self.path}, {self.change}"


Change = Callable[[ast.AST], ast.AST | None]  # the changed node, or None where it does not apply

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
}


def _operator(node: ast.AST) -> ast.AST | None:
    """Another comparison, sign or conjunction."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
        node.ops[0] = _SWAPPED[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPPED:
        node.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
    else:
        return None
    return node


def _constant(node: ast.AST) -> ast.AST | None:
    """One more, or the other truth."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int):
        return None
    return ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)


def _condition(node: ast.AST) -> ast.AST | None:
    """The other branch."""
    if not isinstance(node, ast.If | ast.IfExp | ast.While):
        return None
    node.test = ast.UnaryOp(ast.Not(), node.test)
    return node


def _result(node: ast.AST) -> ast.AST | None:
    """No result."""
    return ast.Return(None) if isinstance(node, ast.Return) and node.value is not None else None


def _call(node: ast.AST) -> ast.AST | None:
    """A call left out."""
    return ast.Pass() if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None


CHANGES: dict[str, Change] = {
    "operator": _operator,
    "constant": _constant,
    "condition": _condition,
    "result": _result,
    "call": _call,
}


def _is_told_only(node: ast.AST) -> bool:
    """Messages, annotations and decorators: no test need hold them."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func).startswith("logger.")
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.ImportFrom)


def _places(node: ast.AST, parent: ast.AST | None = None) -> Iterator[ast.AST]:
    """The nodes that may be changed."""
    if _is_told_only(node):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, node)


def sites(root: Path) -> list[Site]:
    """Every place in :data:`CHANGED` that can be changed, in a fixed order."""
    found = []
    for path in [each for folder in CHANGED for each in sorted((root / folder).rglob("*.py"))]:
        places = _places(ast.parse(path.read_text()))
        for number, node in enumerate(places):
            for name, change in CHANGES.items():
                if change(copy.deepcopy(node)) is not None:
                    found.append(Site(path.relative_to(root), number, name))
    return found


def mutated(source: str, site: Site) -> tuple[str, str]:
    """The module with the change, and the change told: line, before, after."""
    tree = ast.parse(source)
    node = next(node for number, node in enumerate(_places(tree)) if number == site.node)
    changed = CHANGES[site.change](copy.deepcopy(node))
    assert changed is not None
    told = f"line {node.lineno}: {_first_line(node)}  ->  {_first_line(changed)}"  # type: ignore[attr-defined]

    class Exchange(ast.NodeTransformer):
        def visit(self, visited: ast.AST) -> ast.AST:
            return changed if visited is node else self.generic_visit(visited)

    return ast.unparse(ast.fix_missing_locations(Exchange().visit(tree))), told


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:110]


def own_tests(root: Path, module: Path) -> list[str]:
    """The test modules of a module's room, those named after the module first."""
    room = root / "tests" / module.parent
    found = [
        str(path.relative_to(root))
        for path in sorted(room.glob("test_*.py") if module.parent.name == "storage" else room.rglob("test_*.py"))
        if not any(word in path.read_text() for word in NOT_FOR_MUTANTS)
    ]
    return sorted(found, key=lambda path: f"/test_{module.stem}" not in path)


class _Deadline:
    """Begins no test after :data:`TESTED_S`."""

    def pytest_runtest_logfinish(self) -> None:
        if time.process_time() > TESTED_S:
            import pytest  # noqa: PLC0415  # only here, behind the fork

            pytest.exit("time is over", returncode=TIME_IS_OVER)


def _test(root: str, tests: list[str]) -> None:
    """In a process of its own: run tests in a mutated tree; the exit code is pytest's."""
    import pytest  # noqa: PLC0415

    os.chdir(root)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "pyspark_commitlog")]:
        del sys.modules[name]
    sys.path.insert(0, root)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (HANGS_S, HANGS_S))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # a mutant may ask for any amount, a test for 5 GiB
    arguments = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    os._exit(pytest.main(arguments, plugins=[_Deadline()]))


def outcome(root: Path, tests: list[str]) -> str:
    """What the tests made of a mutant: killed, hung, survived, or survived for as long as there was time."""
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_test, args=(str(root), tests))
    process.start()
    process.join(WAITED_S)
    if process.is_alive():
        process.kill()
        process.join()
    code = process.exitcode
    if code is None or code < 0:
        return "hung"
    return {0: "survived", TIME_IS_OVER: "survived for the time"}.get(code, "killed")


def copy_tree(target: Path) -> None:
    """What git knows of, links as links."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def run(run: Run) -> None:
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    tree = run.directory / "tree"
    copy_tree(tree)
    all_sites = sites(tree)
    for case in run.cases():
        site = case.chance.choice(all_sites)
        tests = own_tests(tree, site.path)
        if case.number % CONTROL_EVERY == 0 and not outcome(tree, tests).startswith("survived"):
            run.fault(case, f"{site.path}: its tests fail without a change: {tests}")
        _try(run, case, tree, site, tests)


def _try(run: Run, case: Case, tree: Path, site: Site, tests: list[str]) -> None:
    path = tree / site.path
    source = path.read_text()
    changed, told = mutated(source, site)
    path.write_text(changed)
    found = outcome(tree, tests)
    path.write_text(source)
    run.note(found)
    run.passed()
    if found != "killed":
        run.tell(f"{found}: case {case.number}, {site.path}, {told}")


SUITE = Suite("mutants", 500, run)
