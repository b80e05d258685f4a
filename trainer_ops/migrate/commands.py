"""Command lines: which program starts the training, with which options, in argv or in the text of a ``sh -c``.

``Line`` is command and args of a container as one argv; ``launches`` finds the programs in it; ``options`` reads the
options of one. Edits (``Line.put``, ``Line.insert``) give a new ``Line`` and leave everything else of the text as it
is: quoting, comments, line ends. After an edit the words of the old line are void: look again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Launch", "Line", "Option", "Word", "launches", "mentions", "option", "options", "shell_text"]

_SHELLS: Final = ("sh", "bash", "dash", "ash", "zsh", "ksh")
# Programs that start another one; what they take themselves is skipped until a program is known.
_WRAPPERS: Final = (
    *("catchsegv", "chroot", "command", "conda", "dumb-init", "env", "exec", "gosu", "micromamba", "mamba", "nice"),
    *("nohup", "nsys", "numactl", "pipenv", "poetry", "setarch", "stdbuf", "su-exec", "sudo", "taskset", "time"),
    *("timeout", "tini", "tini-static", "unbuffer", "uv", "xvfb-run", "then", "do", "else", "if", "while", "!"),
)
_PYTHON: Final = re.compile(r"(python|pypy)(\d+(\.\d+)*)?", re.ASCII)
_MODULES: Final[Mapping[str, str]] = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "launch",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed": "deepspeed",
    "paddle.distributed.launch": "paddle",
    "horovod.runner.launch": "horovodrun",
}
_PROGRAMS: Final[Mapping[str, str]] = {
    "torchrun": "torchrun",
    "tune": "torchrun",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "mpiexec.hydra": "mpirun",
    "mpirun.openmpi": "mpirun",
    "mpiexec.openmpi": "mpirun",
    "orterun": "mpirun",
    "prterun": "mpirun",
    "horovodrun": "horovodrun",
    "fleetrun": "paddle",
}
# Words of a program before its options: ``accelerate launch``.
_SUBCOMMANDS: Final[Mapping[str, str]] = {"accelerate": "launch", "tune": "run"}
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_TOKEN: Final = re.compile(
    r"""(?P<space>(?:[ \t\r]|\\\r?\n)+)
      | (?P<comment>(?<![^\s;&|()])\#[^\n]*)
      | (?P<end>\n|;;?|&&?|\|\|?|[(){}](?=\s|;|$)|\()
      | (?P<word>(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|`[^`]*`
                    |[^\s;&|()'"\\]|['"\\])+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word, unquoted, and where it stands.

    Attributes:
        text: without quotes; expansions (``$RANK``) as written.
        item: index in ``Line.argv``.
        start: in the text of that item.
        end: in the text of that item.
        shell: the item is a shell's text; else the word is the whole item.
    """

    text: str
    item: int
    start: int
    end: int
    shell: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Command and args of a container as one argv.

    Attributes:
        argv: command, then args.
        split: how many of them are the command; 0: the image's entry point comes before, unknown here.
    """

    argv: tuple[str, ...]
    split: int

    @classmethod
    def of(cls, container: Mapping[str, Any]) -> Line:
        """That of a container."""
        command, args = container.get("command") or (), container.get("args") or ()
        return cls((*command, *args), len(command))

    @property
    def command(self) -> list[str]:
        """As the container's command."""
        return list(self.argv[: self.split])

    @property
    def args(self) -> list[str]:
        """As the container's args."""
        return list(self.argv[self.split :])

    def put(self, word: Word, text: str) -> Line:
        """The word replaced; in a shell's text by ``text`` as it is, which may hold expansions."""
        item = self.argv[word.item]
        made = item[: word.start] + text + item[word.end :] if word.shell else text
        return Line((*self.argv[: word.item], made, *self.argv[word.item + 1 :]), self.split)

    def insert(self, word: Word, texts: Sequence[str]) -> Line:
        """Words after a word; quoted in a shell's text, unless they hold expansions."""
        if word.shell:
            quoted = [text if "$" in text else shlex.quote(text) for text in texts]
            return self.put(word, " ".join([self.argv[word.item][word.start : word.end], *quoted]))
        at = word.item + 1
        split = self.split + (len(texts) if at <= self.split else 0)
        return Line((*self.argv[:at], *texts, *self.argv[at:]), split)

    def remove(self, words: Sequence[Word]) -> Line:
        """Without these words, all of one launch."""
        line = self
        for word in sorted(words, key=lambda w: (w.item, w.start), reverse=True):
            if word.shell:
                item = line.argv[word.item]
                start = len(item[: word.start].rstrip(" \t"))
                line = line.put(Word(word.text, word.item, start, word.end, True), "")
            else:
                split = line.split - (word.item < line.split)
                line = Line((*line.argv[: word.item], *line.argv[word.item + 1 :]), split)
        return line


@dataclass(frozen=True, slots=True)
class Launch:
    """One program that a line starts.

    Attributes:
        program: ``torchrun`` (also ``python -m torch.distributed.run`` and ``tune run``), ``launch``
            (torch.distributed.launch), ``accelerate``, ``deepspeed``, ``mpirun``, ``horovodrun``, ``paddle``,
            ``python``, or ``other``.
        words: of the simple command, from the program on.
        head: how many of them name the program: 3 of ``python -m torch.distributed.run``.
        before: the words before it: assignments and wrappers.
    """

    program: str
    words: tuple[Word, ...]
    head: int = 1
    before: tuple[Word, ...] = ()

    @property
    def shell(self) -> bool:
        """It stands in a shell's text."""
        return self.words[0].shell

    @property
    def texts(self) -> tuple[str, ...]:
        """The words' texts."""
        return tuple(word.text for word in self.words)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a program.

    Attributes:
        name: as written, without its value: ``--nproc_per_node``.
        value: of the first value; "" when it has none.
        words: option and values; one word with ``--name=value``.
    """

    name: str
    value: str
    words: tuple[Word, ...]


def shell_text(argv: Sequence[str]) -> int | None:
    """Index of the text that a shell is given by ``-c``, None when argv starts no shell so."""
    if not argv or argv[0].rpartition("/")[2] not in _SHELLS:
        return None
    for i, item in enumerate(argv[1:], start=1):
        if item.startswith("-") and not item.startswith("--") and "c" in item:
            return i + 1 if i + 1 < len(argv) else None
        if not item.startswith(("-", "+")) and argv[i - 1] not in ("-o", "+o"):
            return None
    return None


def launches(line: Line) -> tuple[Launch, ...]:
    """The programs that a line starts, in the order of the text."""
    return tuple(_launch(words) for words in _simple_commands(line.argv) if words)


def options(launch: Launch, arity: Mapping[str, int], *, rest: bool = False) -> tuple[Option, ...]:
    """The options of a program, up to the script that it starts.

    Args:
        launch: the program.
        arity: how many values an option takes when it is written without ``=``, where that is not 1.
        rest: read on behind the first word that is no option.
    """
    found: list[Option] = []
    i, words = launch.head, launch.words
    while i < len(words):
        text = words[i].text
        if not text.startswith("-") or text == "--":
            if not rest:
                break
            i += 1
            continue
        name, sign, value = text.partition("=")
        count = 0 if sign else arity.get(name, arity.get(name.replace("-", "_"), 1))
        values = words[i + 1 : i + 1 + count]
        found.append(Option(name, value if sign else (values[0].text if values else ""), (words[i], *values)))
        i += 1 + count
    return tuple(found)


def option(found: Sequence[Option], *names: str) -> Option | None:
    """The last option with one of these names; ``-`` and ``_`` in them are one."""
    wanted = {_flat(name) for name in names}
    return next((one for one in reversed(found) if _flat(one.name) in wanted), None)


def mentions(texts: Sequence[str], name: str, *, shell: bool = True) -> bool:
    """Whether ``$(NAME)`` stands in one of the texts, or (``shell``) ``$NAME`` or ``${NAME…}``."""
    forms = rf"\$\({name}\)" + (rf"|\$\{{{name}\b|\${name}\b" if shell else "")
    return any(re.search(forms, text) for text in texts)


def _flat(name: str) -> str:
    stripped = name.lstrip("-")
    return name[: len(name) - len(stripped)] + stripped.replace("-", "_")


def _simple_commands(argv: Sequence[str]) -> Iterator[tuple[Word, ...]]:
    at = shell_text(argv)
    if at is None:
        yield tuple(Word(text, i, 0, len(text)) for i, text in enumerate(argv))
    else:
        yield from _of_text(argv[at], at)


def _of_text(text: str, item: int) -> Iterator[tuple[Word, ...]]:
    words: list[Word] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "word":
            words.append(Word(_unquoted(match.group()), item, match.start(), match.end(), True))
        elif kind in ("end", "comment"):
            yield tuple(words)
            words = []
    yield tuple(words)


def _unquoted(text: str) -> str:
    if not any(mark in text for mark in "'\"\\"):
        return text
    return re.sub(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\\n|\\(.)""", _bare, text, flags=re.DOTALL)


def _bare(match: re.Match[str]) -> str:
    single, double, escaped = match.groups()
    if double is not None:
        return re.sub(r'\\(["\\$`\n])', lambda m: "" if m[1] == "\n" else m[1], double)
    return single if single is not None else escaped or ""


def _launch(words: tuple[Word, ...]) -> Launch:
    texts = [word.text for word in words]
    start = next((i for i, text in enumerate(texts) if not _ASSIGNMENT.match(text)), len(texts))
    if start < len(texts) and texts[start].rpartition("/")[2] in _WRAPPERS:
        known = (i for i in range(start + 1, len(texts)) if _known(texts[i]))
        start = next(known, start)
    if start == len(texts):
        return Launch("other", words, 0)
    program, head = _program(texts[start:])
    return Launch(program, words[start:], head, words[:start])


def _known(text: str) -> bool:
    base = text.rpartition("/")[2]
    return base in _PROGRAMS or bool(_PYTHON.fullmatch(base))


def _program(texts: Sequence[str]) -> tuple[str, int]:
    base = texts[0].rpartition("/")[2]
    if base in _PROGRAMS:
        sub = _SUBCOMMANDS.get(base)
        if sub is None:
            return _PROGRAMS[base], 1
        return (_PROGRAMS[base], 2) if texts[1:2] == [sub] else ("other", 1)
    if not _PYTHON.fullmatch(base):
        return "other", 1
    for i, text in enumerate(texts[1:], start=1):
        if text == "-m" and i + 1 < len(texts):
            program = _MODULES.get(texts[i + 1])
            return (program, i + 2) if program else ("python", 1)
        if not text.startswith("-") or text == "-c":
            break
    return "python", 1
