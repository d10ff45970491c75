"""The fuzzer's process: ``python -m tests.torture.fuzz_target DECODER CORPUS -runs=…``, libFuzzer's arguments last."""

from __future__ import annotations

import sys
from functools import partial

import atheris

with atheris.instrument_imports(include=["pyspark_commitlog"]):  # it sees only what is imported here
    from tests.torture.fuzz import DECODERS, attempt


def main() -> None:
    _, name, *arguments = sys.argv
    atheris.Setup([sys.argv[0], *arguments], partial(attempt, DECODERS[name]))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
