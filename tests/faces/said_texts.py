"""Texts that agents say: words among tags, entities, controls, code, tables, links, and marks that are none."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

# fmt: off
TAGS = (
    "<important>", "</b>", "<b>bold</b>", "List<String>", "Map<K, V>", "<br>", "<br/>", "<!-- note -->", "<x y='z'>",
    "<script>alert(1)</script>", "a < b", "x<y>z", "<?php ?>", "<![CDATA[x]]>", "</div></main>", "<3", "->", "<=>",
)
ENTITIES = ("&amp;", "&lt;b&gt;", "&copy;", "&#60;", "&#x202e;", "&nbsp;", "&nope;", "AT&T", "&", "&#27;[31m")
CONTROLS = ("\x1b[31m", "\x00", "\x07", "\x08", "\x0b", "\x0c", "\r", "\x7f", "\x85", "\x9b31m", "\u2028", "\u2029")
TURNS = (
    "\u202egpj.exe\u202c", "\u2066x\u2069", "\u202ax", "\u2067", "\u200f", "שלום", "مرحبا 12", "\u200b", "e\u0301",
)
MARKS = (
    "*", "**", "_", "__", "~~", "`", "``", "[", "]", "(", ")", "![", "](", "#", ">", "|", "\\", "\\\\", "\\*",
    "\\[x\\]", "-", "+", "=", "!", "1.", "w~~~x", "[x]", "[x]: y", "[^1]", "$x_1$", "C:\\_dir", "\\\\srv\\x", "***",
)
ODD = (
    "snake_case_name", "2 * 3 * 4", "file_*.py", "#5", "# ", "100%", "§", "🙂", "👩\u200d👩\u200d👧", "ß", "中文字",
    "\t", "https://e.org/a%20b?x=1&y=2", "http://x.y/(z)", "a@b.cd", "main.py", "x ~/x", "`code <b>`", "``a ` b``",
    "...", "@room", "@ann:example.org", "/x",
)
# fmt: on


class Writer:
    """One text after the other, the same for the same seed. No two words of a text are alike."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._words = 0

    def text(self) -> str:
        self._words = 0
        text = self._block(0)
        for _ in range(self.dice.choice((0, 0, 1, 2, 4))):
            block = self._block(0)
            apart = ("\n\n", "\n\n\n") if block[0] == "|" or block[0].isdigit() else ("\n\n", "\n", "\n\n\n")
            text += self.dice.choice(apart) + block
        return text

    def word(self) -> str:
        self._words += 1
        return f"{self.dice.choice(('w', 'Ä', 'qu', 'zx'))}{self._words}"

    def _inline(self, depth: int = 0) -> str:
        return " ".join(self._piece(depth) for _ in range(self.dice.choice((1, 2, 2, 3, 4))))

    def _piece(self, depth: int) -> str:
        pick = self.dice.random()
        if pick < 0.35 or depth > 3:
            return self.word()
        if pick < 0.62:
            sort = self.dice.choice((TAGS, ENTITIES, CONTROLS, TURNS, ODD))
            return self.dice.choice(("", self.word())) + self.dice.choice(sort) + self.dice.choice(("", self.word()))
        if pick < 0.70:
            return self.word() + self.dice.choice(MARKS) + self.dice.choice(("", " ")) + self.word()
        return self.dice.choice(self._dressed())(depth + 1)

    def _dressed(self) -> list[Callable[[int], str]]:
        return [
            lambda depth: f"**{self._inline(depth)}**",
            lambda depth: f"*{self._inline(depth)}*",
            lambda depth: f"__{self._inline(depth)}__",
            lambda depth: f"~~{self.word()} {self._inline(depth)}~~",
            lambda depth: f"`{self.word()} {self.dice.choice(TAGS)}`",
            lambda depth: f"[{self.word()}](https://e.org/{self.word()})",
            lambda depth: f"[{self._inline(depth)}](src/{self.word()}.py:12)",
            lambda depth: f'[{self.word()}](https://e.org/{self.word()} "{self.word()} <t>")',
            lambda depth: f"[](https://e.org/{self.word()})",
            lambda depth: f"![{self.word()} `{self.word()}`](https://e.org/{self.word()}.png)",
            lambda depth: f"![](img/{self.word()}.png)",
            lambda depth: f"<https://e.org/{self.word()}>",
            lambda depth: f"[ftp](ftp://e.org/{self.word()})",
            lambda depth: f"[js](javascript:{self.word()})",
        ]

    def _block(self, depth: int) -> str:
        kinds = [
            self._inline,
            self._inline,
            self._lines,
            self._heading,
            self._list,
            self._numbers,
            self._table,
            self._fence,
        ]
        kinds += [self._quote, self._rule, self._definition, self._deep]
        return self.dice.choice(kinds[: 8 if depth else 12])(depth)

    def _lines(self, depth: int) -> str:
        return self.dice.choice(("\n", "  \n", "\\\n", "\r\n")).join(
            self._inline() for _ in range(self.dice.randint(2, 3))
        )

    def _heading(self, depth: int) -> str:
        text = self._inline()
        return self.dice.choice((f"# {text}", f"### {text} ##", f"{text}\n===", f"{text}\n---"))

    def _list(self, depth: int) -> str:
        mark = self.dice.choice("-*+")
        items = [f"{mark} {self._inline()}" for _ in range(self.dice.randint(1, 3))]
        if depth < 2 and self.dice.random() < 0.4:
            items.append(f"{mark} " + self._block(depth + 1).replace("\n", "\n  "))
        return "\n".join(items)

    def _numbers(self, depth: int) -> str:
        first = self.dice.choice((1, 1, 3, 7))
        step = self.dice.choice((1, 1, 4))
        return "\n".join(f"{first + n * step}. {self._inline()}" for n in range(self.dice.randint(1, 3)))

    def _table(self, depth: int) -> str:
        cells = [
            [self._inline(3) for _ in range(self.dice.choice((2, 2, 2, 3)))] for _ in range(self.dice.randint(1, 3))
        ]
        rows = ["| " + " | ".join(row) + " |" for row in [[self.word(), self.word()], *cells]]
        return "\n".join([rows[0], self.dice.choice(("|---|:-:|", "| - | - |")), *rows[1:]])

    def _fence(self, depth: int) -> str:
        info = self.dice.choice(("", "", "python", "js file.js", "sh rm -rf <important>", "c++", "**x**"))
        inside = "\n".join(
            self.dice.choice(("", "  ")) + self.word() + " " + self.dice.choice((*TAGS, *ENTITIES, *MARKS, *CONTROLS))
            for _ in range(self.dice.randint(1, 3))
        )
        mark = self.dice.choice(("```", "~~~", "````"))
        return f"{mark}{info}\n{inside}\n" + self.dice.choice((mark, mark, mark if depth else ""))

    def _quote(self, depth: int) -> str:
        return "\n".join(f"> {line}" for line in self._block(depth + 1).split("\n"))

    def _rule(self, depth: int) -> str:
        return f"{self.word()}\n\n{self.dice.choice(('---', '***', '_ _ _'))}\n\n{self.word()}"

    def _definition(self, depth: int) -> str:
        return self.dice.choice((f"[{self.word()}]: {self.word()}", f"[INFO]: https://e.org/{self.word()} 'x'"))

    def _deep(self, depth: int) -> str:
        return self.dice.choice(("> " * 45, "- " * 30, "[" * 60, "*" * 50)) + self.word()


@cache
def texts(seed: int, count: int) -> tuple[str, ...]:
    writer = Writer(seed)
    return tuple(writer.text() for _ in range(count))
