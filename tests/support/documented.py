# SPDX-License-Identifier: MIT
"""For the tests of programs that print JSON: which of its fields a page does not name."""


def undocumented(value, page):
    """The names of fields, at any depth, that are not in backquotes in the text of the page."""
    if isinstance(value, list):
        return {name for each in value for name in undocumented(each, page)}
    if not isinstance(value, dict):
        return set()
    return ({name for name in value if f"`{name}`" not in page} |
            undocumented(list(value.values()), page))
