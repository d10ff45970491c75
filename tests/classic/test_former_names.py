"""``pyspark_commitlog.clients``: what programs for 0.1.0 import is still there, and is what ``classic`` has."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

# The names that the pages of 0.1.0 have, and some of each module that they mean without naming it.
OF_PAGES = {
    "producer": ["CallbackHandler", "Producer", "ProducerConfig", "ProducerData", "Record"],
    "streams": ["ConsumerConfig", "ConsumerConnector"],
    "consumer": ["BatchMessageSet", "EARLIEST_TIME", "FetchRequest", "SimpleConsumer"],
    "topic_filters": ["Blacklist", "Whitelist"],
    "errors": ["ConsumerTimeoutError", "NotSentError", "QueueClosedError", "QueueFullError"],
}


def both(module: str) -> tuple[ModuleType, ModuleType]:
    return import_module(f"pyspark_commitlog.clients.{module}"), import_module(f"pyspark_commitlog.classic.{module}")


@pytest.mark.parametrize("module", OF_PAGES)
def test_each_public_name_is_the_same_object(module: str) -> None:
    former, here = both(module)
    public = {name for name in dir(here) if not name.startswith("_")}
    assert public.issuperset(OF_PAGES[module])
    assert [name for name in sorted(public) if getattr(former, name) is not getattr(here, name)] == []


@pytest.mark.parametrize("module", OF_PAGES)
def test_other_names_are_missing(module: str) -> None:
    former, _ = both(module)
    with pytest.raises(AttributeError, match="no_such_name"):
        former.no_such_name  # noqa: B018


@pytest.mark.parametrize("module", ["producer", "streams", "consumer"])
def test_a_name_is_loaded_when_first_used(module: str) -> None:
    program = (
        f"import sys, pyspark_commitlog.clients.{module} as former\n"
        "print(*{'numpy', 'numba', 'confluent_kafka', 'kazoo'} & {*sys.modules})\n"
        f"print(former.{OF_PAGES[module][0]}.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, home = done.stdout.splitlines()
    assert loaded == ""
    assert home.startswith(f"pyspark_commitlog.classic.{module}.")
