"""The page's list of sessions says what is new and who is needed, in other sessions and in a hidden tab, too."""

from __future__ import annotations

from pathlib import Path

import browser
import httpx2
import pytest
from browser import KEYS, Browser
from live_house import OPTIONS, LiveHouse, bodies, shows, visit

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")


def row(key: str) -> str:
    return f"#sessions a[href='#/s/{key}']"


def unread(live: LiveHouse, key: str) -> int:
    sessions = httpx2.get(f"{live.server.url}/v1/sessions", trust_env=False).json()["sessions"]
    return int(next(session.get("unread", 0) for session in sessions if session["key"] == key))


def title(page: Browser) -> str:
    return str(page.run("document.title"))


def test_a_session_that_needs_somebody_is_seen_from_another_one_and_in_the_tabs_title(
    page: Browser, live: LiveHouse
) -> None:
    agent = live.begin("deploy")
    page.until(lambda: page.texts(row("deploy")) != [], "the session, without a reload")
    assert page.texts("#needs") == []
    live.do(lambda: agent.ask("Deploy it?", OPTIONS))
    shows(page, "#needs .badge", "1")
    shows(page, f"{row('deploy')} .badge.needs", "1")
    page.until(lambda: title(page).startswith("(1) "), "the title")
    page.click(row("deploy"))
    page.click("#rows .request .allow")
    shows(page, "#needs")
    page.until(lambda: title(page) == "deploy · Semel" or not title(page).startswith("("), "the title")
    assert agent.answers == {"1": "y"}


def test_news_of_another_session_is_counted_until_somebody_looks(page: Browser, live: LiveHouse) -> None:
    agent = live.begin("news")
    page.until(lambda: page.texts(row("news")) != [], "the session")
    whole_lists = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('/v1/sessions?')).length"
    asked = page.run(whole_lists)
    live.do(lambda: agent.say("**one**"))
    live.do(agent.end)
    shows(page, f"{row('news')} .badge", "1")
    shows(page, f"{row('news')} .last", "one")
    assert page.run(whole_lists) == asked, "the change alone has come"
    shows(page, "#sessions .day", "Today")
    page.click(row("news"))
    bodies(page, "go", "one")
    page.until(lambda: unread(live, "news") == 0, "the gateway knows that it was seen")
    shows(page, f"{row('news')} .badge")
    visit(page, live)
    shows(page, f"{row('news')} .badge")


def test_the_list_keeps_the_focus_when_its_rows_move(page: Browser, live: LiveHouse) -> None:
    agents = [live.begin(key) for key in ("b", "a")]
    page.until(lambda: len(page.texts("#sessions a")) == 3, "the sessions")
    page.run(f'void document.querySelector("{row("a")}").focus()')
    live.do(lambda: agents[0].say("to the top"))
    live.do(agents[0].end)
    page.until(lambda: page.run("document.querySelector('#sessions a').hash") == "#/s/b", "the new order")
    assert page.run("document.activeElement.hash") == "#/s/a"


def test_a_pinned_session_stays_on_top_and_its_menu_works_by_keyboard(page: Browser, live: LiveHouse) -> None:
    for key in ("old", "new"):
        live.do(lambda key=key: live.gateway.say(key, f"say {key}"))  # type: ignore[misc]
    page.until(lambda: page.texts("#sessions b")[:2] == ["say new", "say old"], "the sessions")
    page.run(f'void document.querySelector("{row("old")} + button").focus()')
    page.press("enter")
    page.until(lambda: page.run("document.activeElement.innerText") == "Pin", "the menu has the focus")
    page.press("enter")
    page.until(lambda: page.texts("#sessions b")[:2] == ["say old", "say new"], "it is on top")
    shows(page, "#sessions .day", "Pinned", "Today")
    page.until(lambda: page.run("document.activeElement.matches('.session button')"), "the focus is back")
    live.do(lambda: live.gateway.say("new", "again"))
    visit(page, live)
    page.until(lambda: page.texts("#sessions b")[:2] == ["say old", "say new"], "also after a reload")
    ask_for_menu = "new MouseEvent('contextmenu', { bubbles: true, cancelable: true })"
    of_mouse = ask_for_menu.replace("{ ", "{ button: 2, ")
    assert page.run(f'document.querySelector("{row("old")}").dispatchEvent({of_mouse})'), "the browser's own menu"
    page.run(f'void document.querySelector("{row("old")}").dispatchEvent({ask_for_menu})')
    saves = ("Save as a web page", "Save as Markdown", "Save as JSON lines")
    shows(page, "#row-menu > *", "Unpin", "Rename", *saves, "Archive", "Delete")
    link = page.run("document.querySelector('#row-menu a[href*=jsonl]').href")
    saved = httpx2.get(link, trust_env=False)
    assert '"say old"' in saved.text and "attachment" in saved.headers["content-disposition"]
    page.press("down")
    page.press("enter")
    page.run("void (document.querySelector('#rename-text').value = 'Garden')")
    page.click("#rename-form [type=submit]")
    page.until(lambda: page.texts("#sessions b")[:2] == ["Garden", "say new"], "the title, of the session of the menu")
    page.run(f'void document.querySelector("{row("old")} + button").click()')
    page.click("#row-menu > :nth-last-child(2)")
    page.until(lambda: page.texts("#sessions b")[0] == "say new", "it is archived")
    page.run(f'void document.querySelector("{row("new")} + button").click()')
    page.click("#row-menu > .danger")
    page.click("#delete-form .danger")
    page.until(lambda: "say new" not in page.texts("#sessions b"), "it is deleted")


# ---------------------------------------------------------------- files and commands in the box


DROP = """void (() => {
  const data = new DataTransfer();
  for (const [name, text] of arguments[1]) data.items.add(new File([text], name));
  const target = document.querySelector(arguments[0]);
  if (arguments[2] === 'drop') target.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true }));
  else target.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
})()"""


def test_files_are_dropped_and_pasted_and_leave_with_the_message(page: Browser, live: LiveHouse) -> None:
    page.run(DROP, "#scroller", [["prices.csv", "tea,3\n"], ["no.txt", "no"]], "drop")
    shows(page, ".upload .name", "prices.csv", "no.txt")
    page.run(DROP, "#text", [["shot.txt", "pasted"]], "paste")
    shows(page, ".upload[data-state=done] .name", "prices.csv", "no.txt", "shot.txt")
    page.click(".upload:nth-of-type(2) button")
    shows(page, ".upload .name", "prices.csv", "shot.txt")
    visit(page, live)
    shows(page, ".upload[data-state=done] .name", "prices.csv", "shot.txt")
    page.type("#text", f"what does tea cost?{KEYS['enter']}")
    bodies(page, "what does tea cost?")
    shows(page, "#rows .file", "prices.csv 6 B", "shot.txt 6 B")
    shows(page, ".upload .name")
    (entry,) = [entry for entry in live.entries() if entry["role"] == "user"]
    assert [file["name"] for file in entry["files"]] == ["prices.csv", "shot.txt"]


def test_a_message_waits_for_its_files_and_a_failed_upload_is_told_and_tried_again(
    page: Browser, live: LiveHouse
) -> None:
    page.offline(True)
    page.run(DROP, "#scroller", [["a.txt", "a"]], "drop")
    shows(page, ".upload .told", "not uploaded: no connection")
    page.offline(False)
    page.errors()  # the browser notes the lost connection by itself
    page.click(".upload button")
    shows(page, ".upload[data-state=done] .name", "a.txt")
    page.run("void document.querySelector('#composer').requestSubmit()")
    shows(page, "#rows .file", "a.txt 1 B")


def test_a_message_that_waits_for_a_file_does_not_leave_without_it(page: Browser, live: LiveHouse) -> None:
    page.run("""void (() => {
        const requests = XMLHttpRequest.prototype, {send} = requests;
        requests.send = function () { window.held = this; requests.send = send; };
    })()""")
    page.run(DROP, "#scroller", [["a.txt", "a"]], "drop")
    page.type("#text", f"see the file{KEYS['enter']}")
    shows(page, "#files .waiting", "The message is sent when its files are uploaded.")
    page.run("void window.held.onerror()")
    shows(page, ".upload .told", "not uploaded: no connection")
    shows(page, "#files .waiting")
    assert page.run("document.querySelector('#text').value") == "see the file"
    page.click(".upload button")
    shows(page, ".upload[data-state=done] .name", "a.txt")
    page.type("#text", KEYS["enter"])
    shows(page, "#rows .file", "a.txt 1 B")
    assert [entry["text"] for entry in live.entries()] == ["see the file"]


def test_commands_and_files_are_listed_as_they_are_written_and_a_key_chooses_one(
    page: Browser, live: LiveHouse
) -> None:
    page.type("#text", "/st")
    page.until(lambda: any(text.startswith("/stop") for text in page.texts("#commands li")), "the menu")
    page.type("#text", KEYS["escape"])
    shows(page, "#commands li")
    page.type("#text", "o")
    page.until(lambda: page.texts("#commands li") != [], "the menu again")
    page.type("#text", KEYS["enter"])
    page.until(lambda: str(page.run("document.querySelector('#text').value")).startswith("/stop"), "the command")
    assert live.entries() == [], "nothing was sent by choosing"
    page.run("void (document.querySelector('#text').value = '')")
    workspace = Path(live.gateway.settings.agents["main"].cwd)
    (workspace / "src").mkdir()
    (workspace / "src" / "clock.py").touch()
    (workspace / "cloth.txt").touch()
    page.type("#text", "mend @clo")
    shows(page, "#commands li", "cloth.txt", "src/clock.py")
    page.type("#text", KEYS["down"] + KEYS["enter"])
    page.until(lambda: page.run("document.querySelector('#text').value") == "mend @src/clock.py ", "the file")
    page.type("#text", f"and mail to a@clo{KEYS['enter']}")
    bodies(page, "mend @src/clock.py and mail to a@clo")
