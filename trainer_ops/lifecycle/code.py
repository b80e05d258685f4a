"""Code on this machine becomes code in a request: a script is read, a function's source is taken and checked.

A function that is shipped runs alone, in another process of another image. Everything that would fail there for that
reason is refused here, where the person who wrote it still sits.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.request import FunctionCode, ScriptCode, TrainRequest

__all__ = ["function_code", "resolve_code"]

_FIELD: Final = "python_callable"
# Read no further: what a TrainJob can carry is far less, and a path may be that of a data set.
_MAX_BYTES: Final = 16 << 20
_FUTURE: Final = "from __future__ import annotations\n\n\n"
_GLOBAL_LOADS: Final = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
_PROVIDED: Final = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__builtins__"}


def resolve_code(request: TrainRequest) -> TrainRequest:
    """The request with ``script`` read into ``code``; as it is when it has no ``script``.

    Raises:
        InvalidRequest: the script is missing, unreadable, no file, no text or too big.
    """
    if request.script is None:
        return request
    given = request.script
    if "://" in given:
        raise InvalidRequest("script", f'"{given}" is a URI', "Give a path on this machine")
    path = Path(given).expanduser()
    code = ScriptCode(filename=path.name, source=_read(path))
    return request.model_copy(update={"script": None, "code": code})


def _read(path: Path) -> str:
    if not path.exists():
        raise InvalidRequest("script", f'"{path}" does not exist', f"Give a path as seen from {Path.cwd()}")
    if not path.is_file():
        raise InvalidRequest("script", f'"{path}" is not a file', "Give the script itself")
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise InvalidRequest("script", f'"{path}" cannot be read ({exc.strerror})', "Check its permissions") from exc
    if len(content) > _MAX_BYTES:
        raise InvalidRequest("script", f'"{path}" has more than {_MAX_BYTES >> 20} MiB', "Give a Python script")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InvalidRequest("script", f'"{path}" is not UTF-8 text', "Save it as UTF-8") from exc


def function_code(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> FunctionCode:
    """The function's source, ready to be called with ``kwargs`` where nothing else of its module exists.

    Decorators are left behind, since they belong to this side (``@task``). Tuples in ``kwargs`` arrive as lists.

    Raises:
        InvalidRequest: field ``python_callable``: it is no plain function, or it needs what is defined outside of it;
            ``python_callable.kwargs...``: an argument that is no JSON data or does not fit the signature.
    """
    plain = inspect.unwrap(func)
    if not isinstance(plain, FunctionType):
        raise _refused(f"is a {type(func).__name__}", "Give a function made with def")
    _refuse_shapes(plain)
    arguments = {name: _json(value, f"{_FIELD}.kwargs.{name}") for name, value in kwargs.items()}
    try:
        inspect.signature(plain).bind(**arguments)
    except TypeError as exc:
        raise InvalidRequest(f"{_FIELD}.kwargs", f"do not fit {plain.__name__}(): {exc}", "Pass what it takes") from exc
    return FunctionCode(name=plain.__name__, source=_standing_alone(plain, _source(plain)), kwargs=arguments)


def _refused(reason: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(_FIELD, reason, remedy)


def _refuse_shapes(func: FunctionType) -> None:
    """What is a function, but cannot be called alone."""
    name = func.__name__
    if name == "<lambda>":
        raise _refused("is a lambda", "Write it with def and a name")
    owner = func.__qualname__.rpartition(".")[0]
    if owner and not owner.endswith("<locals>"):
        raise _refused(f"{func.__qualname__} is a method", "Give a function outside of a class")
    if inspect.iscoroutinefunction(func) or inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        raise _refused(f"{name} is a coroutine or a generator: calling it runs nothing", "Give a plain function")
    outer = [free for free in func.__code__.co_freevars if free != name]
    if outer:
        raise _refused(
            f"{name} uses {_listed(sorted(outer))} of the function around it",
            "Pass it as an argument, or define it inside",
        )


def _source(func: FunctionType) -> str:
    """Its text without decorators and without the indentation of where it stands."""
    try:
        text = inspect.getsource(func)
    except (OSError, TypeError) as exc:
        raise _refused(f"the source of {func.__name__} is not known", "Define it in a file") from exc
    for candidate in _outdented(text):
        try:
            tree = ast.parse(candidate)
        except SyntaxError:
            continue
        found = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == func.__name__), None)
        if found is not None:
            lines = candidate.splitlines(keepends=True)
            first = min((d.lineno for d in found.decorator_list), default=found.lineno)
            return "".join(lines[: first - 1] + lines[found.lineno - 1 :])
    raise _refused(f"the source of {func.__name__} cannot be read alone", "Define it with def, on lines of its own")


def _outdented(text: str) -> Iterator[str]:
    """The text at the margin; inside of an ``if`` where moving it would change a string that spans lines."""
    if not text[0].isspace():
        yield text
        return
    moved = textwrap.dedent(text)
    kept = f"if True:\n{text}"
    try:
        same = ast.dump(ast.parse(moved)) == ast.dump(ast.Module(_body(kept), type_ignores=[]))
    except SyntaxError:
        same = False
    yield from (moved, kept) if same else (kept, moved)


def _body(text: str) -> list[ast.stmt]:
    outer = ast.parse(text).body[0]
    return outer.body if isinstance(outer, ast.If) else [outer]


def _standing_alone(func: FunctionType, text: str) -> str:
    """The text, once it needs nothing from outside; annotations that do are left unevaluated."""
    missing = sorted(_outside_names(text, lazy=True) - {func.__name__})
    if missing:
        raise _refused(
            f"{func.__name__} uses {_listed(missing)} from outside, and only the function itself travels",
            "Import or define it inside of the function, or pass it as an argument",
        )
    lazy = func.__code__.co_flags & __future__.annotations.compiler_flag
    return _FUTURE + text if lazy or _outside_names(text, lazy=False) - {func.__name__} else text


def _outside_names(text: str, *, lazy: bool) -> set[str]:
    """Global names that the text reads and neither defines nor finds among the builtins."""
    flags = __future__.annotations.compiler_flag if lazy else 0
    code = compile(text, "<function>", "exec", flags=flags, dont_inherit=True)
    read: set[str] = set()
    defined: set[str] = set()
    for part in _codes(code):
        steps = [(step.opname, str(step.argval)) for step in dis.get_instructions(part)]
        own = {name for op, name in steps if op == "STORE_NAME"}
        read |= {name for op, name in steps if op in _GLOBAL_LOADS} - own
        defined |= {name for op, name in steps if op == "STORE_GLOBAL"}
    return read - defined - _PROVIDED


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _json(value: Any, path: str) -> Any:
    """The value as plain JSON data, or a refusal that says where it is not."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise InvalidRequest(path, f"{value!r} is no JSON number", "Give text, and turn it into a number inside")
    # Also a mapped task's results, which Airflow reads one by one.
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise InvalidRequest(path, f"the key {name!r} is a {type(name).__name__}", "Give text as keys")
        return {name: _json(item, f"{path}.{name}") for name, item in value.items()}
    raise InvalidRequest(path, f"is a {type(value).__name__}", "Give plain data: text, numbers, lists, mappings")


def _listed(names: list[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))
