from __future__ import annotations

import pytest

from pyspark_commitlog.storage.errors import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("vlaue", " (did you mean 'value'?)", id="misspelled"),
        pytest.param("KEY", " (did you mean 'key'?)", id="another case"),
        pytest.param("startingoffset", " (did you mean 'startingOffsets'?)", id="the hint has the case of the name"),
        pytest.param("colour", "", id="no name like it"),
    ],
)
def test_an_unknown_name_gets_the_known_one_that_is_most_like_it(name: str, hint: str) -> None:
    assert did_you_mean(name, ["key", "value", "startingOffsets"]) == hint
