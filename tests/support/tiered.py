"""A directory of a broker with tiered storage: t-plain-0 from 618 on, t-delrec-0 from 565, the rest in the tier."""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).parents[1] / "golden" / "tiered" / "local.tar.xz"


def tiered_directory(target: Path) -> Path:
    """Unpacks it into ``target``; returns ``target``."""
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(target, filter="data")
    return target
