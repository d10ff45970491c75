"""The kernel that compares strings with a given one, and its slow twin in ``tests/support/logs/reference.py``."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from pyspark_commitlog.storage.format.tables import BinaryColumn
from pyspark_commitlog.storage.kernels.finding import matching
from tests.support.logs import reference

SHORT = st.text("ab", max_size=6).map(str.encode)


@given(st.lists(st.none() | SHORT, max_size=20), SHORT)
@example([b"aab", b"ab"], b"ab")
@example([b"a", b"b"], b"ab")  # at the seam of two strings
def test_strings_are_matched_like_the_slow_twin_matches_them(strings: list[bytes | None], wanted: bytes) -> None:
    column, middle = BinaryColumn.from_list(strings), len(strings) // 2
    for how in (matching.EQUAL, matching.PREFIX, matching.CONTAINS):
        expected = [reference.matches(each, wanted, how) for each in strings]
        assert matching.matching(column, wanted, how).tolist() == expected
        assert matching.matching(column.slice(middle, len(strings)), wanted, how).tolist() == expected[middle:]
