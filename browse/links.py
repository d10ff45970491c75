"""Links to pages: every view has one, and the formats that a person chose stay in all of them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

KEPT = ("key", "value", "isolation", "limit")  # the query parameters that every link keeps


class Links:
    """Makes the paths of pages, with those of the page's own ``query`` that are in :data:`KEPT`."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.kept = {name: query[name] for name in KEPT if name in query}

    def __call__(self, *parts: object, **query: object) -> str:
        """Returns a path such as ``/topics/orders/0?value=hex``; a list among ``parts`` stands for its items.

        ``query`` adds to that; None removes a part.
        """
        asked = {name.replace("_", "-"): value for name, value in {**self.kept, **query}.items() if value is not None}
        flat = [each for part in parts for each in (part if isinstance(part, list | tuple) else [part])]
        path = "/" + "/".join(quote(str(each), safe="") for each in flat)
        return f"{path}?{urlencode(asked)}" if asked else path
