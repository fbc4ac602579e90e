"""What a block says. O6 and L17 name the field failures; x7 are the thirteen shapes that were tried on NanoClaw."""

from __future__ import annotations

import law_pieces
import pytest

from semel.text.message_markup import Internal, MarkupProblem, Piece, Said, strip_padding

NAMES = ("cli", "work")


def read(text: str, names: tuple[str, ...] = NAMES, addressed: bool = True) -> list[Piece]:
    return law_pieces.read([text], names, addressed)


def home(text: str) -> Said:
    return Said(None, text)


def to(name: str, text: str) -> Said:
    return Said(name, text, final=True)


def unknown(name: str, text: str, hint: str = "") -> MarkupProblem:
    return MarkupProblem("unknown", f"no destination is called {name!r}{hint}", text, NAMES)


def unclosed(tag: str, text: str, name: str | None = None) -> MarkupProblem:
    return MarkupProblem("unclosed", f"{tag} was never closed with </{tag.strip('<>').split()[0]}>", text, NAMES, name)


def unreadable(why: str, text: str) -> MarkupProblem:
    return MarkupProblem("unreadable", f'{why}; write <message to="name">text</message>', text, NAMES)


@pytest.mark.parametrize(
    ("shape", "text", "want"),
    [
        ("plain", '<message to="cli">hi</message>', [to("cli", "hi")]),
        ("message in internal", '<internal>x <message to="cli">hi</message></internal>',
         [Internal('x <message to="cli">hi</message>')]),
        ("internal in body", '<message to="cli">a <internal>secret</internal> b</message>',
         [Internal("secret"), to("cli", "a  b")]),
        ("code fence", '```xml\n<message to="cli">hi</message>\n```',
         [home('```xml\n<message to="cli">hi</message>\n```')]),
        ("nested example", '<message to="cli">Write <message to="work">x</message> then</message>',
         [to("cli", 'Write <message to="work">x</message> then')]),
        ("entities", '<message to="cli">a &lt; b &amp;&amp; c</message>', [to("cli", "a &lt; b &amp;&amp; c")]),
        ("empty body", '<message to="cli"></message>', []),
        ("misspelt name", '<message to="wrok">hi</message>', [unknown("wrok", "hi")]),
        ("unclosed", 'On it. <message to="work">hi', [home("On it. "), unclosed('<message to="work">', "hi", "work")]),
        ("single quotes", "<message to='cli'>hi</message>", [to("cli", "hi")]),
        ("upper case", '<MESSAGE TO="cli">hi</MESSAGE>', [to("cli", "hi")]),
        ("extra attribute", '<message id="7" to="cli" lang=en urgent>hi</message>', [to("cli", "hi")]),
        ("bare text beside blocks", 'On it.\n<message to="work">hi</message>\nSent.',
         [home("On it.\n"), to("work", "hi"), home("Sent.")]),
    ],
)  # fmt: skip
def test_the_thirteen_shapes_of_x7_o6_l17(shape: str, text: str, want: list[Piece]) -> None:
    assert read(text) == want


@pytest.mark.parametrize(
    "text",
    ['<message to="cli">hi</message>', "<internal>x</internal>", "  a\n", "<message to=", "```\n`"],
)
def test_where_only_home_can_be_reached_text_is_text(text: str) -> None:
    assert read(text, addressed=False) == [home(text)]
    assert read("", addressed=False) == []


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("<message to=cli>", "cli"),
        ("<message to = 'cli' >", "cli"),
        ('<Message\n  to="cli"\n>', "cli"),
        ('<message to=" cli ">', "cli"),
        ('<message to="a &amp; b">', "a & b"),
        ('<message to="&#x61;&#62;b">', "a>b"),
        ('<message to="a>b">', "a>b"),
        ("<message to='\"q\"'>", '"q"'),
        ("<message to=a/b>", "a/b"),
        ('<message to="&copy;">', "&copy;"),
        ('<message to="#général">', "#général"),
    ],
)
def test_the_name_is_read_in_every_way_to_write_an_attribute(tag: str, name: str) -> None:
    assert read(f"{tag}hi</message >", (name,)) == [to(name, "hi")]


@pytest.mark.parametrize("written", ["work", " Work ", "WORK", "w\u014frk", "W\u004f\u0306RK"])
def test_a_name_is_read_in_any_letters_as_long_as_only_one_is_meant(written: str) -> None:
    names = ("cli", "w\u014frk" if "\u014f" in written or "\u0306" in written else "work")
    assert read(f'<message to="{written}">hi</message>', names) == [to(names[1], "hi")]


def test_a_name_that_may_mean_two_is_held_back_unless_it_is_written_as_one_of_them() -> None:
    names = ("Work", "WORK")
    assert read('<message to="WORK">hi</message>', names) == [to("WORK", "hi")]
    [held] = read('<message to="work">hi</message>', names)
    assert isinstance(held, MarkupProblem)
    assert held.reason == "no destination is called 'work' (more than one is: 'Work', 'WORK')"


def test_no_name_means_home_where_home_can_be_addressed() -> None:
    assert read('<message to="">hi</message>', ("home", "cli")) == [to("home", "hi")]
    assert read('<message to=" HOME ">hi</message>', ("home", "cli")) == [to("home", "hi")]


def test_an_addressed_block_parts_what_stands_around_it_into_two_stretches() -> None:
    text = 'one<message to="cli">x</message>two<message to="work"></message>\n\n  three <internal>y</internal>four'
    assert read(text) == [home("one"), to("cli", "x"), home("two"), home("  three "), Internal("y"), home("four")]


@pytest.mark.parametrize(
    "text",
    [
        "a < b && c > d",
        "the <message> element and </message>",
        "<message/>",
        "<messages to=x>",
        "<message urgent>",
        "<internally>",
        "< message to=cli>",
        "</ message>",
        "</internal> x",
        "<mess",
        "<message",
        "</message",
        "<meſſage to=cli>x",
        "<message " + " " * 600 + 'to="cli">',
        "C:\\<dir>",
    ],
)
def test_what_is_no_tag_goes_home_unchanged(text: str) -> None:
    assert read(text) == [home(text)]


@pytest.mark.parametrize(
    "text",
    [
        'Use `<message to="cli">hi</message>` for that.',
        'Use ``<message to="cli">`</message>`` for that.',
        '``` <message to="cli">x</message> ```',
        '~~~\n<message to="cli">x</message>',
        '````\n```\n<message to="cli">x</message>\n````',
        '   ```\n<message to="cli">x</message>\n   ```',
        '```\n<message to="cli">x</message>\n``',
        '```<message to="cli">\nx',
        'a `b` `` ` `` `<internal>x</internal>`',
        '`` a ` <message to="cli">x</message> ``',
        'x `<message to="cli">` y `</message>` z',
        "\\\\`<internal>`",
    ],
)  # fmt: skip
def test_code_is_text_and_not_markup(text: str) -> None:
    assert read(text) == [home(text)]


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("a ` b ", ""),
        ("`a\n", " `"),
        ("\\`", " `"),
        ("`` ", " `"),
        ("    ```\n", "\n    ```"),
        ("```\nx\n```\n", "\n```\ny"),
        ("``` a`b\n", ""),
        ("``` x ", " `"),
        ("a ```b\n", "\n```"),
        ("`" + "x" * 10, " " + "y" * 1000 + "`"),
    ],
)
def test_what_only_looks_like_code_hides_no_markup(before: str, behind: str) -> None:
    assert read(f'{before}<message to="cli">hi</message>{behind}')[1] == to("cli", "hi")


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("\nhi\n", "hi"),
        (" hi ", "hi"),
        ("\n\n    code\n  x\n\n", "    code\n  x"),
        ("```\n</message>\n```", "```\n</message>\n```"),
        ("\n```py\na </message>\n```\n", "```py\na </message>\n```"),
        ("`</message>`", "`</message>`"),
        ("a  b\r\n\tc", "a  b\r\n\tc"),
        ("<internal>x</internal>\nhi", "hi"),
        ("a </internal> b", "a </internal> b"),
        ('a <message to="x"/> b', 'a <message to="x"/> b'),
        ("a <message> b", "a <message> b"),
    ],
)
def test_a_body_arrives_as_it_was_written_but_for_its_padding(body: str, want: str) -> None:
    pieces = read(f'<message to="work">{body}</message>')
    assert [piece for piece in pieces if isinstance(piece, Said)] == [to("work", want)]


@pytest.mark.parametrize("body", ["", " \n", "<internal>x</internal>", "<internal/>", "\u200b\u2060", " \u00ad\n"])
@pytest.mark.parametrize("name", ["cli", "nobody"])
def test_a_body_that_shows_nothing_is_never_sent_and_no_problem(name: str, body: str) -> None:
    assert [p for p in read(f"<message to={name}>{body}</message>") if not isinstance(p, Internal)] == []
    assert [p for p in read(f"<message to={name}>{body}") if not isinstance(p, Internal)] == []
    assert read('<message to="cli"/>') == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('<message to="">x</message>', [unknown("", "x")]),
        ("<message to=nobody>x", [unclosed("<message to=nobody>", "x")]),
        ('<message to="work">a <message to="cli">b</message>',
         [unclosed('<message to="work">', 'a <message to="cli">b</message>')]),
        ('<message to="work">```\n</message>', [unclosed('<message to="work">', "```\n</message>", "work")]),
        ("hm <internal>x", [home("hm "), unclosed("<internal>", "x")]),
        ('<message to="work">hi <internal>x</message>',
         [Internal("x</message>"), unclosed('<message to="work">', "hi", "work")]),
        ("<message to='work>secret</message>",
         [unreadable("the tag cannot be read", "<message to='work>secret</message>")]),
        ('<message to="work"cc="cli">secret',
         [unreadable("the tag cannot be read", '<message to="work"cc="cli">secret')]),
        ('<message channel="work">secret</message>!',
         [unreadable("the tag has no `to`", '<message channel="work">secret</message>'), home("!")]),
        ("<message to=work TO=cli>x</message>",
         [unreadable("the tag has more than one `to`", "<message to=work TO=cli>x</message>")]),
        ('<message to="' + "x" * 600 + '">s</message>',
         [unreadable("the tag cannot be read", '<message to="' + "x" * 600 + '">s</message>')]),
        ('<message to="wo', [unreadable("the tag cannot be read", '<message to="wo')]),
        ('<internal why="x>secret</internal> y',
         [unreadable("the tag cannot be read", '<internal why="x>secret</internal>'), home("y")]),
    ],
)  # fmt: skip
def test_what_cannot_be_delivered_is_held_back_with_its_text_and_the_reason_l17(text: str, want: list[Piece]) -> None:
    assert read(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("<internal>x</internal>\n\nHi", "Hi"),
        ("Hi\n<internal>x</internal>\n\n", "Hi\n"),
        ("Hi.\n<internal>x</internal>\nBye.", "Hi.\n\nBye."),
        ("\n<internal>x</internal>\n  - a", "  - a"),
        ("<internal>x</internal> <internal>y</internal>\n", ""),
        ("\n\n", "\n\n"),
        ("\n Hi \n", "\n Hi \n"),
        ("Hi <internal/>there", "Hi there"),
    ],
)
def test_white_space_goes_with_markup_only_at_the_ends(text: str, want: str) -> None:
    assert "".join(piece.text for piece in read(text) if isinstance(piece, Said)) == want


def test_internal_text_nests_and_hides_everything_in_it() -> None:
    assert read("a<internal>b<internal>c</internal>d</message></internal>e") == [
        home("a"), Internal("b<internal>c</internal>d</message>"), home("e"),
    ]  # fmt: skip


def test_a_fence_begins_behind_removed_markup_where_the_line_does() -> None:
    text = '<internal>x</internal>```\n<message to="cli">y</message>\n```'
    assert read(text) == [Internal("x"), home('```\n<message to="cli">y</message>\n```')]
    assert read('a <internal>x</internal>```\n<message to="cli">y</message>')[-1] == to("cli", "y")


def test_padding_is_blank_space_and_never_indentation() -> None:
    assert strip_padding(" \n\t\n  a\n b \n ") == "  a\n b"
    assert strip_padding("\t a") == "a"
