"""``{{ }}`` of a template engine that fills a job in later (Argo): words in its place while the job is converted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Masks", "mask"]

_EXPRESSION = re.compile(r"\{\{(?:[^{}]|\{[^{}]*\})*\}\}")
_NAMES = re.compile(r"(?:name|generateName|namespace)\s*:\s*[\"']?$")


@dataclass(frozen=True, slots=True)
class Masks:
    """The words, and what they stand for."""

    words: Mapping[str, str] = field(default_factory=dict)
    # Those that were a whole value in quotes.
    quoted: frozenset[str] = frozenset()

    def restore(self, text: str) -> str:
        """A text of YAML with the expressions back in their places."""
        for word, expression in self.words.items():
            if word in self.quoted:
                text = re.sub(rf"(?<=[:-] ){re.escape(word)}$", lambda _, e=expression: f'"{e}"', text, flags=re.M)  # type: ignore[misc]
            text = text.replace(word, expression)
        return text

    def restored(self, value: Any) -> Any:
        """A value with the expressions back in its texts."""
        if not self.words:
            return value
        if isinstance(value, str):
            for word, expression in self.words.items():
                value = value.replace(word, expression)
            return value
        if isinstance(value, Mapping):
            return {self.restored(key): self.restored(item) for key, item in value.items()}
        return [self.restored(item) for item in value] if isinstance(value, list | tuple) else value


def mask(text: str) -> tuple[str, Masks]:
    """The text with each expression replaced by a word that YAML, and the rules for names, let pass."""
    words: dict[str, str] = {}
    quoted: set[str] = set()

    def word(found: re.Match[str]) -> str:
        before, after = text[: found.start()], text[found.end() :]
        line = before[before.rfind("\n") + 1 :]
        alone = re.match(r"[ \t]*($|\n|#)", after) is not None and re.search(r"(^|[:-]\s+)$", line) is not None
        in_quotes = line[-1:] in ('"', "'") and after[:1] == line[-1:]
        name = _NAMES.search(line) is not None
        # A number may be meant: a word that says that it is a placeholder. A name has to stay one.
        made = f"$TRAINER_OPS_{len(words)}_" if (alone or in_quotes) and not name else f"x{len(words)}trainerops"
        words[made] = found[0]
        if in_quotes:
            quoted.add(made)
        return made

    masked = _EXPRESSION.sub(word, text)
    return masked, Masks(words, frozenset(quoted))
