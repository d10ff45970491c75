"""Results of the checks of a file system or an object store for logs."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Verdict(Enum):
    """The result of a check."""

    PASSED = "passed"
    WARNING = "warning"  # a log can be kept here, with the loss of safety or speed that the detail states
    FAILED = "failed"  # a log must not be kept here


class Finding(NamedTuple):
    """The name of a check, its result, and a sentence about what the place did."""

    check: str
    verdict: Verdict
    detail: str

    def __str__(self) -> str:
        return f"{self.check}: {self.verdict.value}: {self.detail}"
