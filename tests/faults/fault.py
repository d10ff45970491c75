"""A fault that a real log had: what went wrong, what shows that it is absent here, and the line that would cause it."""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import ManualClock
from tests.support.disk.memory_filesystem import MemoryFileSystem
from tests.support.gateway import WireClient, create_topic, serving

PACKAGE = "pyspark_commitlog"
CHANGED = " with the fault"  # ends the file names of changed functions in tracebacks
Scenario = Callable[[Path], object]  # is given an empty directory; raises where the fault shows


@dataclass(frozen=True)
class Mutation:
    """One function of the engine with a fault put in: ``correct``, which it contains once, replaced by ``faulty``."""

    function: str  # module, a colon, name: "storage.compaction.dirty:_bounds", "gateway.groups.group:Group.add"
    correct: str
    faulty: str

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the fault in, wherever the function was imported to; raises AssertionError if the line does not exist."""
        module_name, _, name = self.function.partition(":")
        module = importlib.import_module(f"{PACKAGE}.{module_name}")
        outer, _, name = name.rpartition(".")
        holder = getattr(module, outer) if outer else module
        original = vars(holder)[name]
        faulty = self._compiled(_plain(original), vars(module))
        patch.setattr(holder, name, faulty)
        if not outer:
            for other in [module for path, module in sys.modules.items() if path.startswith((PACKAGE, "tests."))]:
                if vars(other).get(name) is original:
                    patch.setattr(other, name, faulty)

    def _compiled(self, function: Callable[..., Any], module: dict[str, Any]) -> object:
        source = textwrap.dedent(inspect.getsource(function))
        assert source.count(self.correct) == 1, f"{self.function} has no longer, once: {self.correct}"
        flags = __future__.annotations.compiler_flag
        made: dict[str, object] = {}
        changed = source.replace(self.correct, self.faulty)
        exec(compile(changed, f"{self.function}{CHANGED}", "exec", flags), module, made)
        return made[function.__name__]


def _plain(found: Any) -> Callable[..., Any]:
    """The function behind a property, a class method or a context manager."""
    for name in ("fget", "__func__", "func"):
        found = getattr(found, name, found)
    plain: Callable[..., Any] = inspect.unwrap(found)
    return plain


@dataclass(frozen=True)
class Fault:
    """A row of the table; ``why_not`` if there is no scenario: what the fault needs and does not exist here."""

    number: int
    issue: str
    story: str  # what happened there
    scenario: Scenario | None = None
    mutations: tuple[Mutation, ...] = ()
    why_not: str = ""

    @property
    def held_by(self) -> str:
        """The page's entry: the test, or the reason."""
        if self.scenario is None:
            return self.why_not
        path = self.scenario.__module__.replace(".", "/")
        changed = ", ".join(dict.fromkeys(f"`{mutation.function.replace(':', ': ')}`" for mutation in self.mutations))
        return f"`{self.scenario.__qualname__}` in {path}.py; put back by changing {changed}"


def in_directory(test: Callable[..., object], *arguments: object) -> Scenario:
    """A test that gets a directory."""

    @wraps(test)
    def scenario(directory: Path) -> None:
        test(directory, *arguments)

    return scenario


def on_disk(test: Callable[..., object], *arguments: object, **named: object) -> Scenario:
    """A test that gets a disk in memory."""

    @wraps(test)
    def scenario(_: Path) -> None:
        test(MemoryFileSystem(ManualClock()), *arguments, **named)

    return scenario


def by_itself(test: Callable[..., object], *arguments: object) -> Scenario:
    """A test that gets no arguments, or those that ``arguments`` make: functions among them are called."""

    @wraps(test)
    def scenario(_: Path) -> None:
        test(*[argument() if callable(argument) else argument for argument in arguments])

    return scenario


def given(test: Callable[..., object], **arguments: object) -> Scenario:
    """A test that gets ``arguments`` and, if it asks for them, a directory and what patches modules for it."""

    @wraps(test)
    def scenario(directory: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            call_by_name(test, {"tmp_path": directory, "monkeypatch": patch, **arguments})

    return scenario


def on_gateway(
    test: Callable[..., object], *, settings: Mapping[str, object] | None = None, **arguments: object
) -> Scenario:
    """A test that gets a gateway and what belongs to one, by the names of fixtures; ``arguments``: its others."""

    @wraps(test)
    def scenario(directory: Path) -> None:
        log_dir = directory / "log"
        with serving(log_dir, **(settings or {})) as gateway, WireClient(gateway) as client:
            create_topic(client, "t", 2)
            has = {"gateway": gateway, "client": client, "topic": "t", "log_dir": log_dir}
            call_by_name(test, {**has, "tmp_path": directory, **arguments})

    return scenario


def call_by_name(test: Callable[..., object], has: Mapping[str, object]) -> None:
    """Call a test with those of the arguments that it takes."""
    test(**{name: has[name] for name in inspect.signature(test).parameters})
