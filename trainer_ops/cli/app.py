"""The command line itself: which commands there are, and what becomes of an error. Light: commands import late."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from trainer_ops.cli import change, exec, init, look, migrate, rbac, report, snapshots, train
from trainer_ops.cli.flags import spread

__all__ = ["app", "run"]

_HELP = """Kubeflow Trainer TrainJobs, on a cluster or on this machine: submit, watch, learn how they ended.

A run is known by its --key, else by the manifest's name: submitting it again adopts it while it trains, trains anew
when it failed, and answers with the result when it has trained.

Exit codes: 0 trained, 1 training failed, 2 invalid input, 3 gave up waiting or detached (the training goes on),
4 cancelled, 5 target unreachable; of exec those of its command.
"""

app = typer.Typer(
    name="trainer-ops",
    help=_HELP,
    # Plain help: rich's costs as much time as all the rest of --help.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from trainer_ops.lifecycle.version import tool_version

        typer.echo(f"trainer-ops {tool_version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


_COMMANDS: dict[str, Callable[..., int]] = {
    "run": train.run,
    "submit": train.submit,
    "wait": train.wait,
    "status": look.status,
    "list": look.list_,
    "logs": look.logs,
    "report": report.report,
    "exec": exec.exec_,
    "cancel": change.cancel,
    "suspend": change.suspend,
    "resume": change.resume,
    "validate": look.validate,
    "runtimes": look.runtimes,
    "rbac": rbac.rbac,
    "migrate": migrate.migrate,
    "demo": train.demo,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(spread(_command))
app.add_typer(init.app)
app.add_typer(snapshots.app)


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code and prints what there is to say about an error."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(app(args, prog_name="trainer-ops", standalone_mode=False, obj=args) or 0)
    except (BrokenPipeError, SystemExit) as stop:
        # typer makes an exit of a broken pipe.
        if isinstance(stop, SystemExit) and not isinstance(stop.__context__, BrokenPipeError):
            raise
        return _closed_pipe()
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as exc:
        return _failed(exc)


def _closed_pipe() -> int:
    """The reader has what it wanted (``| head``): no error. What is still buffered must not be flushed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return 0


def _failed(error: Exception) -> int:
    if hasattr(error, "show") and hasattr(error, "exit_code"):
        return _usage(error)
    from trainer_ops.cli.exits import DEBUG, exit_for, explain

    if os.environ.get(DEBUG, "0") not in ("", "0"):
        import traceback

        traceback.print_exception(error)
    sys.stdout.flush()
    print(explain(error), file=sys.stderr)
    return int(exit_for(error))


def _usage(error: Any) -> int:
    """An error of the command line's form; typer knows how to show it, under whichever name it ships click."""
    param = getattr(error, "param", None)
    if param is not None and "valid integer" in getattr(error, "message", ""):
        flag = max(param.opts, key=len)
        print(f"invalid request: {flag}: is not given a whole number. Write it like {flag} 2", file=sys.stderr)
        return int(error.exit_code)
    error.show()
    if type(error).__name__ == "NoSuchOption":
        print("What is meant for the training script goes after a --: … -- train.py --rounds 20", file=sys.stderr)
    return int(error.exit_code)
