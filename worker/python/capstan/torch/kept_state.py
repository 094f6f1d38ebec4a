"""Converts a scheduler's state to JSON and back. Every value is restored exactly, floats to the bit."""
from __future__ import annotations

import types
import weakref
from collections import Counter
from typing import Any

from capstan.errors import Unsupported

_PLAIN = (type(None), bool, int, str)
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, weakref.ref)


def is_code(value: object) -> bool:
    """Whether the value is code. Code is not stored: every process has the script's code, and torch does not store it
    either."""
    return isinstance(value, _CODE)


def to_json(value: Any, name: str) -> Any:
    """`name` names the value in errors."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, float):  # numpy.float64 is one
        return float(value)
    if kind is list:
        return [to_json(item, f"{name}[{index}]") for index, item in enumerate(value)]
    if kind is tuple:
        return {"tuple": [to_json(item, f"{name}[{index}]") for index, item in enumerate(value)]}
    if kind in (dict, Counter):
        pairs = [(key, item) for key, item in value.items() if not is_code(item)]
        return {kind.__name__: [[to_json(key, f"a key of {name}"), to_json(item, f"{name}[{key!r}]")]
                                for key, item in pairs]}
    raise Unsupported(f"{name} is of {kind.__module__}.{kind.__qualname__}, and the job keeps None, bool, int, float, str "
                      "and lists, tuples, dicts and Counters of them: make it one of these, with .item(), .tolist() or "
                      "float()")


def from_json(value: Any) -> Any:
    """Raises ValueError or TypeError if to_json did not make `value`."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    (kind, items), = value.items()
    if kind == "tuple":
        return tuple(map(from_json, items))
    if kind not in ("dict", "Counter"):
        raise ValueError(f"a value of the unknown kind {kind!r}")
    pairs = {from_json(key): from_json(item) for key, item in items}
    return pairs if kind == "dict" else Counter(pairs)
