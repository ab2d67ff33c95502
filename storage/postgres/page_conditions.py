"""Conditions of the statements that list one page, newest first."""

from typing import LiteralString

from storage.postgres.paging import Page
from storage.postgres.query import Conditions


class PageConditions(Conditions):
    """The parameters and conditions of a statement that takes the owners, the limit and the offset."""

    def __init__(self, owners: object, page: Page, order: LiteralString) -> None:
        """Start after the page's cursor, a pair of values for `order`: the time column and the id column."""
        super().__init__(owners, page.limit, page.offset)
        if page.after is not None:
            self.add(f"({order}) < ($, $)", *page.after)
