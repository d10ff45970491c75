"""Settings that Spark reads from its file spark-defaults.conf, for programs that start Spark themselves."""

from __future__ import annotations

import os
import re
from pathlib import Path

# A line of Java's properties: the key ends at a blank, = or :.
_LINE = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[\s=:]\s*(.*?)\s*$")


def spark_defaults() -> dict[str, str]:
    """Returns the settings in spark-defaults.conf of SPARK_CONF_DIR, or else of SPARK_HOME; empty without a file."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines() if folder else []
    except OSError:
        return {}
    return dict(found.groups() for line in lines if (found := _LINE.match(line)))  # type: ignore[misc]
