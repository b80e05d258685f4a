"""What is filled in later (``{{ }}`` of Argo or Jinja, ``$NAME`` of envsubst in a name): words in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Masks", "mask", "mask_all"]

_EXPRESSION = re.compile(r"\{\{(?:[^{}]|\{[^{}]*\})*\}\}")
# Numbers that are like that are the converter's matter; a name must stay one while addresses are made of it.
_VARIABLE = re.compile(r"(?<!\$)\$(?:\{\w+\}|[A-Za-z_]\w*)")
_NAME_LINE = re.compile(r"^([ \t-]*(?:name|generateName|namespace)[ \t]*:[ \t]*)([^\n#]*\$[^\n#]*)", re.M)
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


def mask_all(text: str) -> tuple[str, Masks]:
    """``mask``, with variables in names too. A text that would not come back as it was is left as it is."""
    masked, masks = mask(text)
    words = dict(masks.words)

    def word(found: re.Match[str]) -> str:
        made = f"x{len(words)}trainerops"
        words[made] = found[0]
        return made

    masked = _NAME_LINE.sub(lambda found: found[1] + _VARIABLE.sub(word, found[2]), masked)
    masks = Masks(words, masks.quoted)
    return (masked, masks) if words and masks.restore(masked) == text else (text, Masks())
