"""A mirror as a process that a suite kills: python -m tests.torture.mirror_process SPECIFICATION.

The specification is JSON: the settings of each of the ``sources``, those of the ``target``, the topics (``names``), and
``refresh_s``, null for a run up to the ends of the topics.
"""

from __future__ import annotations

import json
import sys

from pyspark_commitlog.classic.topic_filters import Whitelist
from pyspark_commitlog.mirror.run import Mirror
from pyspark_commitlog.mirror.settings import SourceSettings, TargetSettings
from pyspark_commitlog.mirror.topics import TopicChoice


def main(text: str) -> None:
    asked = json.loads(text)
    mirror = Mirror(
        [SourceSettings.parse(each) for each in asked["sources"]],
        TargetSettings.parse(asked["target"]),
        TopicChoice(Whitelist(asked["names"])),
        streams=2,
        refresh_s=asked["refresh_s"],
    )
    mirror.run()


if __name__ == "__main__":
    main(sys.argv[1])
