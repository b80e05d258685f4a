"""Code becomes part of a request, or is refused where the person who wrote it still sits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.code import function_code, resolve_code
from trainer_ops.model.request import ScriptCode, TrainRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE = 0.1


def test_a_script_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train_digits.py"
    path.write_bytes("print('Grüße')\r\n".encode())
    request = TrainRequest(runtime="torch", script=str(path), args=["--lr", "1"])
    resolved = resolve_code(request)
    assert resolved.code == ScriptCode(filename="train_digits.py", source="print('Grüße')\r\n")
    assert (resolved.script, resolved.args, resolved.title) == (None, ["--lr", "1"], request.title)


def test_without_a_script_nothing_changes() -> None:
    request = TrainRequest(runtime="torch", command=["a"])
    assert resolve_code(request) is request


def test_a_byte_order_mark_is_no_code(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"\xef\xbb\xbfprint(1)")
    code = resolve_code(TrainRequest(runtime="torch", script=str(path))).code
    assert isinstance(code, ScriptCode)
    assert code.source == "print(1)"


def test_the_home_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "train.py").write_text("x = 1")
    assert resolve_code(TrainRequest(runtime="torch", script="~/train.py")).code is not None


# (what is made at the path, what is said)
UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "does not exist"),
    "a folder": (lambda path: path.mkdir(), "is not a file"),
    "not UTF-8": (lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not UTF-8 text"),
    "a data set": (lambda path: path.write_bytes(b"x" * (16 << 20) + b"x"), "has more than 16 MiB"),
}


@pytest.mark.parametrize(("make", "text"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_script(tmp_path: Path, make: Callable[[Path], object], text: str) -> None:
    make(tmp_path / "train.py")
    with pytest.raises(InvalidRequest, match=text) as caught:
        resolve_code(TrainRequest(runtime="torch", script=str(tmp_path / "train.py")))
    assert caught.value.field == "script"
    assert caught.value.remedy


def test_a_uri_is_not_fetched_here() -> None:
    with pytest.raises(InvalidRequest, match=r"invalid request: script: .s3://b/train.py. is a URI"):
        resolve_code(TrainRequest(runtime="torch", script="s3://b/train.py"))


def stamped(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


class Task:
    """What Airflow's ``@task`` leaves: an object that knows the function it was made of."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.__wrapped__ = func

    def __call__(self) -> None:
        raise AssertionError("this would make an operator")


def task(**_: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return Task


def plain(lr: float, rounds: int = 2) -> dict[str, float]:
    import math as m

    return {"loss": m.sqrt(lr) * rounds}


@stamped
def decorated(lr: float) -> float:
    return lr


@task(runtime="torch-distributed", num_nodes=2)
@stamped
def tasked(
    lr: float,
) -> float:
    # a comment that stays
    return lr


def named_types(paths: Sequence[Path], where: Path | None = None) -> list[Path]:
    return list(paths)


def builtins_only(n: int) -> list[int]:
    return [abs(i) for i in range(n) if i >= 0]


def nested(n: int) -> int:
    def inner(k: int) -> int:
        return k if k < 2 else inner(k - 1) + n

    class Box:
        size = 3
        double = size * 2

        def get(self) -> int:
            return self.double

    return inner(n) + Box().get()


def recursive(n: int) -> int:
    return 1 if n < 2 else n * recursive(n - 1)


def counts() -> int:
    global COUNTER
    COUNTER = 1  # type: ignore[name-defined]
    return int(COUNTER)  # type: ignore[name-defined]


def scoped(values: list[int]) -> list[Any]:
    if (top := max(values)) > 3:
        values.append(top)
    pairs = {v: [w for w in values if w > v] for v in values}
    try:
        raise ValueError
    except ValueError as error:
        pairs[0] = [len(str(error))]
    with open("/dev/null") as file:
        file.read()
    return sorted(pairs, key=lambda pair: -pair)


def made_inside() -> Callable[..., Any]:
    def fit(n: int) -> str:
        text = """
not indented
    indented"""
        return text * n

    return fit


def made_inside_recursive() -> Callable[..., Any]:
    def down(n: int) -> int:
        return 0 if n == 0 else down(n - 1)

    return down


# (function, arguments, what it returns when it runs alone)
SHIPPED: dict[str, tuple[Callable[..., Any], dict[str, Any], Any]] = {
    "plain": (plain, {"lr": 4.0}, {"loss": 4.0}),
    "decorated": (decorated, {"lr": 1.0}, 1.0),
    "decorated by Airflow": (tasked, {"lr": 1.0}, 1.0),
    "types that are not imported": (named_types, {"paths": ["a"]}, ["a"]),
    "builtins": (builtins_only, {"n": 3}, [0, 1, 2]),
    "functions and classes inside": (nested, {"n": 2}, 9),
    "itself": (recursive, {"n": 4}, 24),
    "a global of its own": (counts, {}, 1),
    "comprehensions, walrus, with, except": (scoped, {"values": [1, 4]}, [4, 1, 0]),
    "made inside another": (made_inside(), {"n": 1}, "\nnot indented\n    indented"),
    "made inside another, recursive": (made_inside_recursive(), {"n": 2}, 0),
}


@pytest.mark.parametrize(("func", "kwargs", "value"), SHIPPED.values(), ids=SHIPPED.keys())
def test_a_function_runs_alone(func: Callable[..., Any], kwargs: dict[str, Any], value: Any) -> None:
    code = function_code(func, kwargs)
    space: dict[str, Any] = {"__name__": "shipped"}
    exec(compile(code.source, "shipped.py", "exec", dont_inherit=True), space)
    assert space[code.name](**code.kwargs) == value


def test_decorators_stay_and_the_rest_travels_as_it_is() -> None:
    source = function_code(tasked, {"lr": 1.0}).source
    assert "stamped" not in source
    assert "@" not in source
    assert "    # a comment that stays\n" in source


def test_arguments_are_json() -> None:
    code = function_code(plain, {"lr": 0.5, "rounds": 3})
    assert code.kwargs == {"lr": 0.5, "rounds": 3}


def test_tuples_travel_as_lists() -> None:
    assert function_code(named_types, {"paths": (1, (2,))}).kwargs == {"paths": [1, [2]]}


def uses_global(n: int) -> float:
    return n * RATE


def uses_module() -> float:
    return math.pi + math.tau


def uses_both() -> Any:
    return [RATE, math.pi, helper]


def helper() -> None:
    pass


def default_from_outside(lr: float = RATE) -> float:
    return lr


def inner_uses_global() -> Any:
    return [lambda: RATE]


def positional(lr: float, /) -> float:
    return lr


async def waits() -> None:
    pass


def yields() -> Any:
    yield 1


class Model:
    def fit(self) -> None:
        pass

    @staticmethod
    def static() -> None:
        pass


def closes() -> Callable[..., Any]:
    outer, other = 1, 2

    def fit() -> int:
        return outer + other

    return fit


made: dict[str, Any] = {}
exec("def unknown(): pass", made)

OUTSIDE = "from outside, and only the function itself travels"

REFUSED: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "a global": (uses_global, {"n": 1}, "", f'uses_global uses "RATE" {OUTSIDE}'),
    "a module": (uses_module, {}, "", f'uses_module uses "math" {OUTSIDE}'),
    "several": (uses_both, {}, "", f'uses_both uses "RATE", "helper" and "math" {OUTSIDE}'),
    "a default": (default_from_outside, {}, "", f'default_from_outside uses "RATE" {OUTSIDE}'),
    "deep inside": (inner_uses_global, {}, "", f'inner_uses_global uses "RATE" {OUTSIDE}'),
    "a closure": (closes(), {}, "", 'fit uses "other" and "outer" of the function around it'),
    "a lambda": (lambda: 1, {}, "", "is a lambda"),
    "a bound method": (Model().fit, {}, "", "is a method"),
    "a function of a class": (Model.fit, {}, "", "Model.fit is a method"),
    "a static method": (Model.static, {}, "", "Model.static is a method"),
    "a class": (Model, {}, "", "is a type"),
    "a builtin": (len, {}, "", "is a builtin_function_or_method"),
    "a partial": (functools.partial(plain, lr=1), {}, "", "is a partial"),
    "a coroutine": (waits, {}, "", "waits is a coroutine or a generator: calling it runs nothing"),
    "a generator": (yields, {}, "", "yields is a coroutine or a generator: calling it runs nothing"),
    "no source": (made["unknown"], {}, "", "the source of unknown is not known"),
    "an argument too few": (plain, {}, ".kwargs", "do not fit plain(): missing a required argument: 'lr'"),
    "an argument too many": (
        plain,
        {"lr": 1, "x": 1},
        ".kwargs",
        "do not fit plain(): got an unexpected keyword argument 'x'",
    ),
    "a positional one": (positional, {"lr": 1}, ".kwargs", "do not fit positional(): "),
    "an object": (plain, {"lr": object()}, ".kwargs.lr", "is a object"),
    "a path": (plain, {"lr": Path("x")}, ".kwargs.lr", "is a PosixPath"),
    "inside": (plain, {"lr": [1, {"a": {2}}]}, ".kwargs.lr[1].a", "is a set"),
    "NaN": (plain, {"lr": math.nan}, ".kwargs.lr", "nan is no JSON number"),
    "a key": (plain, {"lr": {1: 2}}, ".kwargs.lr", "the key 1 is a int"),
}


@pytest.mark.parametrize(("func", "kwargs", "where", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(func: Any, kwargs: dict[str, Any], where: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        function_code(func, kwargs)
    assert caught.value.field == f"python_callable{where}"
    assert text in caught.value.reason
    assert caught.value.remedy
