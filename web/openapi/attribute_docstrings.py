"""The docstrings of attributes: the string below a field of a class describes that field.

Python does not keep them, so they are read from the source.
"""

import ast
import sys
from functools import cache
from inspect import getsource
from itertools import pairwise


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
    tree = ast.parse(getsource(sys.modules[module_name]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
