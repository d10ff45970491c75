"""Write the pages of the tables."""

from pathlib import Path

from tests.faults.table import pages

if __name__ == "__main__":
    for name, text in pages().items():
        (Path(__file__).parents[2] / "docs" / name).write_text(text)
