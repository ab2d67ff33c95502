"""Descriptions from docstrings, also from those of attributes: the string below a field describes it.

Python does not keep the docstrings of attributes, so they are read from the source.
"""

import ast
import sys
from functools import cache
from inspect import cleandoc, getsource
from itertools import pairwise


def description_of(docstring: str | None) -> str:
    """Return a docstring with each paragraph on a line of its own: some viewers keep all line breaks."""
    paragraphs = cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


@cache
def attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of the attributes of a class and of its bases by name, each as one line."""
    module = sys.modules[kind.__module__]
    definition = _class_definitions(kind.__module__).get(kind.__name__)
    if definition is None:  # a class that is made at run time
        return {}
    docstrings: dict[str, str] = {}
    for base in reversed(definition.bases):  # a TypedDict does not name its bases itself
        parent = getattr(module, base.id, None) if isinstance(base, ast.Name) else None
        if isinstance(parent, type):
            docstrings |= attribute_docstrings(parent)
    for statement, following in pairwise(definition.body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docstrings[name] = " ".join(text.split())
    return docstrings


@cache
def _class_definitions(module_name: str) -> dict[str, ast.ClassDef]:
    try:
        source = getsource(sys.modules[module_name])
    except (OSError, TypeError):  # only compiled files are installed: serve without descriptions
        return {}
    return {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)}
