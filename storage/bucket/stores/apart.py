"""Checks a store in a separate interpreter, because the calling program may not be safe to import again.

The processes of a race import the program that started them; a Spark program would start Spark in each of them.
"""

from __future__ import annotations

import json
import subprocess
import sys

from ...errors import ObjectStoreError, StorageError
from ...verdicts import Finding, Verdict
from .probe import check_store

_PROGRAM = f"import sys; sys.path[:] = sys.argv[2:]; from {__name__} import main; main(sys.argv[1])"


def check_store_apart(url: str) -> list[Finding]:
    """Like :func:`check_store`. Raises StorageError if the interpreter fails, with the last line of its error."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM, url, *sys.path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StorageError(f"{url}: the check of the store failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if isinstance(found, str):
        raise ObjectStoreError(found)
    return [Finding(name, Verdict(verdict), detail) for name, verdict, detail in found]


def main(url: str) -> None:
    """Prints the findings as JSON, or the text of the store's error."""
    found: object
    try:
        found = [(each.check, each.verdict.value, each.detail) for each in check_store(url)]
    except ObjectStoreError as error:
        found = str(error)
    print(json.dumps(found))
