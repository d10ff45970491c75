"""Print the page of the table."""

from tests.storage.faults.table import page

if __name__ == "__main__":
    print(page(), end="")
