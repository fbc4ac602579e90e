"""The page as a reader of long, wide and right-to-left texts meets it, and over a line that died without a word."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import browser
import pytest
from browser import KEYS, Browser
from live_house import OPTIONS, ROWS, LiveHouse, bodies, shows, visit, wait_live

from semel.faces.http import Settings, static

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")

READ = (  # the part of a text at the top of the conversation, and where its heading stands
    "(() => { const top = document.querySelector('#scroller').getBoundingClientRect().top;"
    " const below = (node) => node.getBoundingClientRect().top > top;"
    " const part = [...document.querySelectorAll('#rows h2')].find(below);"
    " return [part.innerText, Math.round(part.getBoundingClientRect().top)]; })()"
)
MOVE = """void (([shorter, scrolled, longer]) => {
  const scroller = document.querySelector('#scroller');
  document.querySelector('#rows').style.marginTop = `-${shorter}px`;
  document.querySelector('#outgoing').style.paddingBottom = `${longer}px`;
  scroller.scrollTop -= scrolled;
})(arguments)"""  # rows above become shorter, the view is scrolled up and what is below becomes longer, in one frame
LEFT = """(({scrollHeight, scrollTop, clientHeight}) => scrollHeight - scrollTop - clientHeight)(
  document.querySelector('#scroller'))"""
BIG = "void (document.querySelector('#scroller').scrollTop = arguments[0])"


def test_the_reader_keeps_the_place_while_a_long_answer_grows_and_when_it_ends(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    text = "\n\n".join(
        f"## Part {n}\n\n- **sentence {n}** of `many`\n- and more\n\n| a | b |\n|---|---|\n| {n} | x |"
        for n in range(80)
    )
    seq = live.do(lambda: script.entry("agent", text, live=True))
    page.until(lambda: "Part 79" in str(page.text("#rows .body")), "the answer")
    for place in (5000, 3000):  # from the end upwards, and once more
        page.run(BIG, place)
        before = page.run(READ)
        live.do(lambda place=place: script.append(seq, f"\n\nmore at {place}" * 20))  # type: ignore[misc]
        page.until(lambda place=place: f"more at {place}" in str(page.text("#rows .body")), "more")  # type: ignore[misc]
        page.settle()
        assert page.run(READ) == before
    page.run(BIG, 4000)  # and downwards
    before = page.run(READ)
    whole = text + "\n\nmore at 5000" * 20 + "\n\nmore at 3000" * 20
    live.do(lambda: script.finish(seq, text=whole))
    page.until(lambda: not page.run("!!document.querySelector('#rows .live')"), "the end")
    page.settle()
    assert page.run(READ) == before
    live.do(lambda: script.set(seq, text="And this, first.\n\n" * 9 + whole))
    page.until(lambda: "And this" in str(page.text("#rows .body")), "an edit above what is read")
    page.settle()
    after = page.run(READ)
    assert after[0] == before[0] and abs(after[1] - before[1]) <= 1


def test_rows_that_change_their_heights_do_not_take_the_reader_from_the_end_and_a_scroll_does(
    page: Browser, live: LiveHouse
) -> None:
    script = live.script()
    live.do(lambda: script.entries([("agent", f"line {number}", {}) for number in range(60)]))
    page.until(lambda: len(page.texts(ROWS)) == 60 and page.run(LEFT) < 1, "the end")
    page.run(MOVE, 29, 29, 147)  # as the list of rows does once it has measured those that had been estimated
    page.settle()
    assert page.run(LEFT) < 1, "it follows"
    page.run(MOVE, 29, 90, 300)
    page.settle()
    assert page.run(LEFT) > 200, "who scrolls up while rows grow is left in peace"


def test_older_rows_come_without_a_look_at_the_selection_of_each(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entries([("agent", f"**line** {number}", {}) for number in range(260)]))
    page.until(lambda: len(page.texts(ROWS)) == 260, "the rows")
    visit(page, live)
    page.until(lambda: page.texts("#older") == ["Show older"], "older ones")
    page.run(
        "void (() => { const asked = document.getSelection.bind(document); window.asked = 0;"
        " document.getSelection = () => { window.asked += 1; return asked(); }; })()"
    )
    held = len(page.texts(ROWS))
    page.run("void (document.querySelector('#scroller').scrollTop = 0)")
    page.until(lambda: len(page.texts(ROWS)) > held, "the older ones")
    assert page.run("window.asked") == 0
    order = [int(text.split()[-1]) for text in page.texts("#rows .body")]
    assert order == list(range(order[0], 260))


def test_a_cell_of_a_wide_table_is_never_one_letter_wide(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    row = "|" + "|".join(f"value{n}" for n in range(24)) + "|"
    live.do(lambda: script.entry("agent", f"{row}\n|{'---|' * 24}\n{row}"))
    page.until(lambda: page.run("document.querySelectorAll('#rows td').length") == 24, "the table")
    assert page.run("Math.max(...[...document.querySelectorAll('#rows td')].map((n) => n.offsetHeight))") < 50


def test_code_is_coloured_large_enough_to_read_and_copied_as_it_is(page: Browser, live: LiveHouse) -> None:
    code = "def is_due(at: float) -> bool:\n    return at <= 0  # now\n"
    script = live.script()
    live.do(lambda: script.entry("agent", f"It is:\n\n```python\n{code}```\n"))
    page.until(lambda: page.texts("#rows .code .hljs-keyword") == ["def", "return"], "its colours")
    assert page.text("#rows .codebar") == "python\nCopy"
    assert page.run("parseFloat(getComputedStyle(document.querySelector('#rows pre code')).fontSize)") >= 13
    page.run("void (navigator.clipboard.writeText = async (text) => { window.copied = text; })")
    page.click("#rows .codebar button")
    page.until(lambda: page.run("window.copied"), "the copy")
    assert page.run("window.copied") == code


def test_right_to_left_text_begins_at_the_right(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    text = "שלום עולם then English"
    live.do(lambda: script.entry("user", text))
    live.do(lambda: script.entry("agent", f"{text}\n\n- {text}"))
    live.do(lambda: script.entry("agent", text, live=True))
    page.until(lambda: page.run("document.querySelectorAll('#rows li li, #rows .live').length") == 2, "the rows")
    page.run("void (document.querySelector('#text').value = arguments[0])", text)
    left = (
        "((css) => { const walk = document.createTreeWalker(document.querySelector(css), NodeFilter.SHOW_TEXT);"
        " const node = walk.nextNode(), at = (n) => { const range = document.createRange(); range.setStart(node, n);"
        " range.setEnd(node, n + 1); return range.getBoundingClientRect().left; };"
        " return at(0) > at(node.data.indexOf('then')); })(arguments[0])"
    )
    for css in ("#rows .user .body", "#rows .rich p", "#rows .rich li", "#rows .live .body"):
        assert page.run(left, css), css
    assert page.run("getComputedStyle(document.querySelector('#text')).direction") == "rtl"


def test_a_long_text_of_a_person_is_folded_until_it_is_opened_and_loses_no_character(
    page: Browser, live: LiveHouse
) -> None:
    text = "\n".join(f"line {number}" for number in range(300))
    script = live.script()
    live.do(lambda: script.entry("user", text))
    live.do(lambda: script.entry("user", "and a short one"))
    live.do(lambda: script.entry("agent", "I have read it."))
    bodies(page, text, "and a short one", "I have read it.")
    height = "document.querySelector('#rows .entry.user .body').offsetHeight"
    assert page.run(height) < 400, "a part of one screen"
    shows(page, "#rows .entry.user .unfold", "Show all")
    page.click("#rows .entry.user .unfold")
    page.until(lambda: page.run(height) > 6000, "all of it")
    live.do(lambda: script.set(1, edited=3))
    page.until(lambda: "edited later" in str(page.text("#rows .entry.user .foot")), "a change of the row")
    assert page.run(height) > 6000, "it stays as the reader left it"
    page.click("#rows .entry.user .unfold")
    page.until(lambda: page.run(height) < 400, "folded again")


def test_a_long_message_that_waits_is_folded_until_it_is_opened(page: Browser, live: LiveHouse) -> None:
    page.offline(True)
    page.run("void (document.querySelector('#text').value = arguments[0])", "\n".join(map(str, range(300))))
    page.type("#text", KEYS["enter"])
    shows(page, "#outgoing .unfold", "Show all")
    height = "document.querySelector('#outgoing .body').offsetHeight"
    assert page.run(height) < 400, "a part of one screen"
    page.click("#outgoing .unfold")
    page.until(lambda: page.run(height) > 6000, "all of it")
    page.type("#text", f"another{KEYS['enter']}")
    page.until(lambda: len(page.texts("#outgoing li")) == 2, "a change of the list")
    assert page.run(height) > 6000, "it stays as the reader left it"
    page.offline(False)


def test_rows_are_a_list_for_screen_readers(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("agent", "hello"))
    bodies(page, "hello")
    assert [page.role(css) for css in ("#rows", "#rows > li", "[role=log]")] == ["list", "listitem", "log"]


def test_a_turn_that_begins_with_a_thought_a_call_or_a_request_says_whose_it_is(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    live.do(lambda: script.entry("user", "mend it"))
    live.do(lambda: script.item("usage", used=1, size=10))
    live.do(lambda: script.item("thought", text="hm"))
    live.do(lambda: script.item("tool", title="ls", status="done"))
    live.do(lambda: script.entry("agent", "done"))
    bodies(page, "mend it", "done")
    shows(page, "#rows .head .who", "You", "main")
    live.do(lambda: script.entry("user", "thanks"))
    live.do(lambda: script.entry("agent", "welcome"))
    shows(page, "#rows .head .who", "You", "main", "You", "main")
    live.do(lambda: script.entry("user", "and now?"))
    live.do(lambda: script.item("permission", title="rm x", state="open", options=OPTIONS))
    shows(page, "#rows .request .who", "main")


def test_a_change_of_a_file_is_shown_before_it_is_allowed_and_after(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    lines = [f"line {number}" for number in range(20)]
    new = [*lines[:10], "<b>changed</b>", *lines[11:]]
    diffs = [
        {"path": "src/a.py", "oldText": "\n".join(lines), "newText": "\n".join(new)},
        {"path": "src/new.py", "newText": "one\ntwo"},
        {"path": "src/large.py", "left_out": 1234567},
    ]
    options = [{"optionId": "y", "name": "Allow", "kind": "allow_once"}]
    live.do(lambda: script.item("permission", title="Edit src/a.py", state="open", options=options, diffs=diffs))
    live.do(lambda: script.item("tool", title="Edit src/a.py", status="done", diffs=diffs))
    page.click("#rows .tool summary")
    for row in ("#rows .request", "#rows .tool"):
        shows(page, f"{row} .path", "src/a.py", "src/new.py (a new file)", "src/large.py")
        changed = "  line 7\n  line 8\n  line 9\n- line 10\n+ <b>changed</b>\n  line 11\n  line 12\n  line 13"
        shows(page, f"{row} .diff pre", changed, "+ one\n+ two")
        assert page.texts(f"{row} .diff .none") == ["1,234,567 characters are not shown here"]


def test_formulas_are_drawn_and_what_cannot_be_drawn_without_loss_stays_text(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    text = (
        "It costs $5 or $6, so \\(x_1 = \\frac{a}{b}\\):\n\n$$\n\\sum_{i} i^2\n- c\n$$\n\nand \\(a % hidden\\) stays."
    )
    live.do(lambda: script.entry("agent", text))
    page.until(lambda: page.run("document.querySelectorAll('#rows math').length") == 2, "the formulas")
    drawn = page.run("[...document.querySelectorAll('#rows .math.drawn')].map((one) => [one.title, one.textContent])")
    assert drawn[0] == ["\\(x_1 = \\frac{a}{b}\\)", "x1=ab"]
    assert drawn[1] == ["$$\n\\sum_{i} i^2\n- c\n$$", "∑ii2−c"]
    assert page.texts("#rows .math:not(.drawn)") == ["\\(a % hidden\\)"]
    assert (page.text("#rows .body") or "").startswith("It costs $5 or $6, so ")
    fraction = "document.querySelector('#rows mfrac').getBoundingClientRect().height"
    assert page.run(fraction) > 15, "its parts stand one above the other"
    assert page.run("[...document.querySelectorAll('#rows .body [style]')].length") == 0


def test_details_are_a_closed_disclosure_that_stays_as_the_reader_left_it(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    said = [
        "Done.\n\n<details>\n<summary>The **log** <img src=x onerror=alert(1)></summary>\n\n",
        "```sh\nls\n```\n\n<b>end</b>\n\n",
        "</details>\n\nGood.",
    ]
    seq = live.do(lambda: script.entry("agent", said[0], live=True))
    shown = "document.querySelector('#rows details.disclosure')"
    page.until(lambda: page.run(f"!!{shown} && !{shown}.open"), "a closed disclosure")
    live.do(lambda: script.append(seq, said[1]))
    page.click("#rows .disclosure > summary")
    page.until(lambda: page.text("#rows .disclosure code") == "ls\n", "what is in it")
    live.do(lambda: script.finish(seq, "".join(said)))
    page.until(lambda: page.text("#rows .body > .block:last-child") == "Good.", "what stands behind it")
    assert page.run(f"{shown}.open"), "no update closes it"
    assert page.run("document.querySelectorAll('#rows .body img, #rows .body b').length") == 0
    assert page.texts("#rows .disclosure > summary strong") == ["log"]
    assert page.run("document.querySelector('#rows .disclosure > i').offsetHeight") == 0, "no empty line for its tag"
    letters = page.run("document.querySelector('#rows .body').textContent.replace(/\\s/g, '')")
    assert (
        letters == "Done.<details><summary>Thelog<imgsrc=xonerror=alert(1)></summary>shCopyls<b>end</b></details>Good."
    )


def test_a_bare_address_becomes_a_link_once_what_finds_them_is_loaded(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    (finder,) = (name for name, file in static.load_files().items() if b"get_pseudo_letter" in file.body)
    is_loaded = f"performance.getEntriesByType('resource').some(({{ name }}) => name.endsWith('/{finder}'))"
    seq = live.do(lambda: script.entry("agent", "**（see）**it\n\n", live=True))
    shows(page, "#rows .body", "**（see）**it")  # a sign of Unicode's beside the stars: no rule makes it bold
    assert not page.run(is_loaded)
    page.run("void document.getSelection().selectAllChildren(document.querySelector('#rows .body p'))")
    live.do(lambda: script.append(seq, "It is at https://example.org/a_b_c, &copy; and **bold**."))
    page.until(lambda: page.texts("#rows .body a") == ["https://example.org/a_b_c"], "the link")
    assert page.run(is_loaded), "with the first address"
    assert page.run("document.getSelection().toString()") == "**（see）**it"
    assert page.texts("#rows .body strong") == ["bold"]
    live.do(lambda: script.entry("agent", "mailto:a@example.org"))
    page.until(lambda: page.run("document.querySelectorAll('#rows a[href^=mailto]').length") == 1, "the next at once")


def test_task_lists_and_footnotes_are_drawn_and_no_sign_of_them_is_lost(page: Browser, live: LiveHouse) -> None:
    script = live.script()
    said = [
        "- [x] tested[^a]\n- [ ] **shipped**\n- [x]nothing\n\n1. [ ] loose `[^a]`\n\n2. b [^gone]\n\n",
        *("between\n\n" * 60,),
        "[^a]: Twice, see\n[^b]: the log.",
    ]
    seq = live.do(lambda: script.entry("agent", "", live=True))
    for piece in said:
        live.do(lambda piece=piece: script.append(seq, piece))
    page.until(lambda: page.texts("#rows .note") == ["[^a]", "[^a]", "[^b]"], "the footnotes")
    boxes = "[...document.querySelectorAll('#rows li input')].map((one) => [one.checked, one.disabled])"
    assert page.run(boxes) == [[True, True], [False, True], [False, True]]
    assert page.run("getComputedStyle(document.querySelector('#rows ol li')).listStyleType") == "decimal", (
        "a number stays"
    )
    assert page.run("document.querySelector('#rows .task input').getBoundingClientRect().width") > 8
    text = page.run("document.querySelector('#rows .body').textContent.replace(/\\s+/g, ' ')")
    assert text.strip().startswith("[x] tested[^a] [ ] shipped [x]nothing [ ] loose [^a] b [^gone] between")
    assert text.strip().endswith("[^a]: Twice, see [^b]: the log.")
    assert page.run("document.querySelector('#rows .task i').getBoundingClientRect().width") == 0
    assert page.texts("#rows .note.begins") == ["[^a]", "[^b]"]
    page.click("#rows .note")
    page.until(lambda: page.run("document.activeElement.matches('.note.begins')"), "the footnote")
    page.click("#rows .note.begins")
    in_sight = "((box) => box.top >= 0 && box.bottom <= innerHeight)(document.activeElement.getBoundingClientRect())"
    page.until(
        lambda: page.run(f"document.activeElement.matches('.note:not(.begins)') && {in_sight}"), "the text again"
    )


PLACED = """(() => {
  const lefts = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return new Set([...range.getClientRects()].map((rect) => Math.round(rect.left)));
  };
  const middle = ({top, bottom}) => (top + bottom) / 2;
  const text = [...document.querySelector('.task').childNodes].find((node) => node.data?.trim());
  const [plain, noted] = [...document.querySelectorAll('.rich ol li')].map((item) => item.offsetHeight);
  const summary = document.querySelector('.disclosure > summary'), range = document.createRange();
  const words = document.createTreeWalker(summary, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) if (words.currentNode.data.trim() === 'More') range.selectNodeContents(words.currentNode);
  return {
    lefts: lefts(text).size, taller: noted - plain,
    lower: Math.abs(middle(range.getBoundingClientRect()) - middle(summary.getBoundingClientRect())),
  };
})()"""


def test_on_a_phone_no_text_is_moved_by_what_is_made_for_a_finger(page: Browser, live: LiveHouse) -> None:
    text = (
        f"- [x] {'a task of several lines ' * 5}\n\nand\n\n1. plain\n2. noted[^1]\n\nand\n\n"
        "<details><summary>More</summary>\n\nHidden.\n\n</details>\n\n[^1]: The note."
    )
    script = live.script()
    live.do(lambda: script.entry("agent", text))
    page.until(lambda: page.run("!!document.querySelector('.disclosure > summary')"), "the disclosure")
    with page.looks(390, 844, touch=True):
        page.settle()
        placed = page.run(PLACED)
    assert placed["lefts"] == 1, "the lines of a task begin below each other"
    assert placed["taller"] <= 2, "the mark of a footnote makes its line no taller"
    assert placed["lower"] <= 2, "a summary's text stands in its middle"


def test_two_tabs_have_drafts_of_their_own(page: Browser, live: LiveHouse) -> None:
    page.type("#text", "mine")
    page.run("void localStorage.setItem('semel.draft.s', JSON.stringify('what the other tab wrote later'))")
    visit(page, live)
    assert page.run("document.querySelector('#text').value") == "mine"
    page.run("void sessionStorage.clear()")  # as a new tab, or the browser after a restart
    visit(page, live)
    assert page.run("document.querySelector('#text').value") == "what the other tab wrote later"


def test_without_javascript_the_page_says_so_at_once(page: Browser, live: LiveHouse) -> None:
    with page.without_scripts():
        page.go("about:blank")
        page.go(f"{live.server.url}/#/s/s")
        assert page.element_at(640, 200) == "noscript"


@pytest.fixture
def nervous() -> Iterator[LiveHouse]:
    """A gateway whose streams say five times a second that they live."""
    house = LiveHouse(Settings(heartbeat_s=0.2))
    yield house
    house.close()


class Line:
    """A line to a server that can die without a word: then bytes are swallowed, and nothing is ever closed."""

    def __init__(self, port: int) -> None:
        self.is_dead = False
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        is_dead = False
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                is_dead = is_dead or self.is_dead
                if not is_dead:
                    target.sendall(data)
            if not is_dead:
                target.shutdown(socket.SHUT_WR)


def test_a_line_that_died_without_a_word_is_noticed_and_replaced(window: Browser, nervous: LiveHouse) -> None:
    conversation = nervous.begin()
    line = Line(nervous.port)
    window.go(f"http://127.0.0.1:{line.port}/#/s/s")
    wait_live(window)
    nervous.do(lambda: conversation.say("one"))
    shows(window, "#rows .agent .body", "one")
    shows(window, "#busy", "working")
    line.is_dead = True
    nervous.do(lambda: conversation.say(", two"))
    window.until(lambda: window.run("document.querySelector('#link').dataset.state") == "lost", "the line is lost")
    shows(window, "#busy", "last known: working")
    window.type("#text", "three" + KEYS["enter"])
    shows(window, "#outgoing .state", "no connection: it is sent as soon as there is one")
    moving = "document.getAnimations().filter((one) => one.animationName === 'breathe').length"
    assert window.run(moving) == 0, "something looks as if it ran"
    line.is_dead = False
    window.run("void dispatchEvent(new Event('focus'))")  # somebody looks: it is tried at once
    shows(window, "#rows .agent .body", "one, two")
    shows(window, "#busy", "working")
    assert window.run(moving) == 1
    shows(window, "#rows .user .body", "go", "three")
    wait_live(window)
    window.go("about:blank")
    line.close()
