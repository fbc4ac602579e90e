// The page's main module: it holds the open session and connects the parts of the page.

import { SILENCE_MS, describeActivity } from "./activity.ts";
import { ask, at, messageOf } from "./api.ts";
import { Busy } from "./busy.ts";
import { Channels } from "./channels.ts";
import { signal } from "@preact/signals";
import { h, render } from "preact";
import { Composer } from "./composer.tsx";
import { byId, freshId, h as element, say, selectionTouches, show } from "./dom.ts";
import { Find } from "./find.ts";
import { Gateways } from "./gateways.ts";
import { About, Choices, Line, type LineState, type Offer, type Shown, nameOf } from "./header.tsx";
import { Jump } from "./jump.ts";
import { keepHere } from "./kept.ts";
import { bindKeys, isCovered, showKeys } from "./keys.ts";
import { isLoggedOut, login, loginByLink } from "./login.ts";
import type { Managing } from "./manage.tsx";
import { loadLater, onMissingPart, withLater } from "./on_demand.ts";
import type { OpenSession } from "./open_session.ts";
import { notifyOfNeeds } from "./notifications.ts";
import { Outgoing, type OutgoingMessage } from "./outgoing.ts";
import { OutgoingList } from "./outgoing_list.tsx";
import { applyLooks } from "./looks.ts";
import { Place } from "./scroll.ts";
import { SessionList } from "./session_list.ts";
import { ArchivedButton, NeedsLink, Sessions } from "./sessions.tsx";
import { timeLeft } from "./text.ts";
import { Watch, sessionStream } from "./stream.ts";
import { type RowContext, isOwn } from "./rows/context.ts";
import { RowList } from "./rows/list.tsx";
import { type Row, Transcript, isEntry } from "./transcript.ts";
import { type EmptyConversation, Welcome } from "./welcome.tsx";
import { ViewPlace } from "./views/view_place.ts";
import type { Entry, FileRef, Frame, ListedSession, SessionState, Stretch } from "./wire.ts";
import { t } from "./texts.ts";

applyLooks();
onMissingPart(problem);
const place = new Place(byId("scroller"), byId("down"), [byId("log"), byId("outgoing")]);
const head = signal<Shown | null>(null);
const line = signal<LineState>("off");
let agents: Offer | null = null; // that a new session may have
const composer = new Composer({ send, editLast });
const busy = new Busy(byId<HTMLSelectElement>("how"), problem);
const sessions = new SessionList();
const views = new ViewPlace(sessions, leaveView);
const managing: Managing = { problem, changed: () => sessions.soon() };
const find = new Find(() => drawer(false));
const jump = new Jump({ reveal, keep: redraw, place, opened: () => open, anew: apart, back: newest, drawn: draw, problem });
const opened = signal<string | null>(null); // the key of the open session
const empty = signal<EmptyConversation | null>(null);
const leaving = signal(0); // counts the changes of the messages that are on their way
const outgoing = new Outgoing({ accepted, changed: () => leaving.value++ });
const channels = new Channels();
const gateways = new Gateways(() => drawState());
byId("manage-button").addEventListener("click", openSessionMenu);
byId("people-button").addEventListener("click", () => void withLater(({ openPeople }) => openPeople()));
const REST = 60000;
const SEEN_MS = 1000;
const REST_OF_PAGE_MS = 3000;
let resting: ReturnType<typeof setTimeout> | undefined;
let counting: ReturnType<typeof setTimeout> | undefined;
let changed = Date.now(); // when the open view changed last
let open: OpenSession = { key: null, view: new Transcript(), watch: null };

const context: RowContext = {
  agent: () => open.view.session.value.agent || t("Agent"),
  output: (item) => at(open.key!, `/outputs/${item}`),
  answer: (item, option) => attempt(async () => {
    await ask("POST", at(open.key!, "/answers"), { item, option, seen: open.view.rev ?? undefined });
    if (!selectionTouches(byId("log"))) composer.takeLostFocus();
  }),
  go: (seq) => jump.aim(seq),
  why,
  retry: () => send("/retry"),
  quote: (text) => composer.quote(text),
  edit,
  decide: (part, verdict) => attempt(() => ask("POST", `/v1/parts/${part}/${verdict}`, {})),
};

const list = new RowList(byId("log"), byId("scroller"), context, () => place.pinned);

/** Changes the rows, and keeps the reader's place. */
function redraw(update: () => void, grew = true): void {
  place.keep(() => {
    list.draw(update);
    return grew;
  });
}

function reveal(row: Row): void {
  place.pinned = false;
  list.reveal(row, (node) => place.reveal(node));
}

const chosen = () => drawer(false);
render(h(Sessions, { list: sessions, open: opened, chosen, menu: openRowMenu }), byId("sessions-place"));
render(h(About, { shown: head }), byId("about"));
render(h(Choices, { shown: head, begin, problem }), byId("choices-place"));
render(h(Line, { state: line }), byId("line"));
render(h(NeedsLink, { list: sessions, chosen }), byId("needs-place"));
render(h(ArchivedButton, { list: sessions }), byId("archived-place"));
render(h(OutgoingList, { outgoing, session: opened, changes: leaving, line, edit: (message) => composer.restore(message.text, message.files) }), byId("outgoing"));
render(h(Welcome, { shown: empty, hasChannels: channels.any, send, made: watch }), byId("welcome"));
sessions.needed.subscribe(() => drawTitle());
notifyOfNeeds(sessions);

/** Shows why an entry of the open session is what it is. */
function why(seq: number): void {
  const ref = `${open.key}#${seq}`;
  void withLater(({ openStory }) => openStory(ref));
}

/** Opens the menu of the open session for the first time. */
function openSessionMenu(event: Event): void {
  const isThere = () => document.getElementById("manage") !== null; // then the browser opens and closes it
  if (isThere()) return;
  event.preventDefault();
  void withLater((part) => isThere() || part.openSessionMenu({ shown: head, begin, managing }));
}

function openRowMenu(beside: HTMLElement, session: ListedSession): void {
  void withLater((part) => part.openRowMenu(beside, session, { list: sessions, managing }));
}

function send(text: string, files: FileRef[] = []): void {
  if (open.key === null) return;
  if (jump.last !== null) choose(open.key); // leave the older stretch: the message appears at the end
  outgoing.add(open.key, text, open.view.rev, busy.take(), files);
  draw();
  place.toEnd(); // show the person their own message
}

function edit({ kind, text, files = [], at }: Entry): void {
  if (kind === "command") composer.restore(text); // it is given again
  else composer.edit(text, files.filter((file) => file.id), at);
}

function quoteSelection(): boolean {
  if (!selectionTouches(byId("log"))) return false;
  composer.quote(String(document.getSelection()));
  return true;
}

/** Puts the owner's last message into the box. Returns whether there is one. */
function editLast(): boolean {
  const { key, view } = open;
  const message = key === null ? undefined : outgoing.shown(key).at(-1);
  if (message) {
    if (outgoing.takeBack(key!, message)) composer.restore(message.text, message.files);
    else problem(t("This message is on its way: edit it once it is in the conversation."));
    return true;
  }
  const entry = view.shown.peek().map((row) => row.data.peek()).findLast((data) => isEntry(data) && isOwn(data)) as Entry | undefined;
  if (!entry || jump.last !== null) return false;
  edit(entry);
  return true;
}

async function attempt(act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    problem(error);
    return false;
  }
}

function problem(error: unknown): void {
  say(byId("busy"), messageOf(error));
  byId("busy").classList.add("wrong");
  setTimeout(() => drawState(), 6000);
}

// ---------------------------------------------------------------- one session

function choose(key: string, fresh = false): void {
  open.watch?.close();
  open = { key, view: new Transcript(), watch: null, fresh };
  byId("top").classList.remove("had");
  list.select(open.view);
  composer.select(key);
  opened.value = key;
  find.select(key);
  jump.forget();
  place.toEnd();
  link(fresh ? "new" : "off");
  draw();
  if (!fresh) watch();
  composer.takeFocus();
}

/** Replaces the view by an empty one, for older history of the same session, and returns it. It gets no changes. */
function apart(session: SessionState): Transcript {
  open.watch?.close();
  open = { ...open, view: new Transcript(), watch: undefined };
  open.view.session.value = session;
  list.select(open.view);
  link("apart");
  return open.view;
}

function newest(): void {
  if (open.key === null) return;
  history.replaceState(null, "", `#/s/${encodeURIComponent(open.key)}`);
  choose(open.key);
}

/** Closes the stream of a hidden tab once no turn runs: a browser has six connections for all tabs. Or reopens it. */
function rest(): void {
  clearTimeout(resting);
  if (!document.hidden) return open.watch?.wake();
  resting = setTimeout(() => (open.view.session.value.state === "running" ? rest() : open.watch?.sleep()), REST);
}

function watch(): void {
  const { key, view } = open;
  if (key === null) return;
  open.fresh = false;
  open.watch = new Watch(sessionStream(key), { tell: (frame: Frame) => open.view === view && take(frame), link, rev: () => view.rev });
}

function take(frame: Frame): void {
  const { key, view } = open;
  if (key === null) return;
  if (frame.rev !== view.rev) changed = Date.now(); // a connection that begins again without news shows nothing new
  const entries: Entry[] = frame.type === "snapshot" ? frame.entries : frame.changes.filter((change) => change.op === "entry");
  const grew = frame.type === "snapshot" || frame.changes.some((change) => change.op !== "session");
  redraw(() => {
    outgoing.seen(key, entries);
    announce(view.apply(frame));
  }, grew);
  if (place.pinned && !isHeld(byId("log"))) redraw(() => view.trim());
  if (view.session.value.state === "deleted") return leave(key);
  draw();
  tellSeen();
  void jump.go();
  if (frame.type === "snapshot" || frame.changes.some((change) => change.op === "session")) sessions.soon();
}

/** Whether the reader's selection or focus is in a node. */
function isHeld(node: HTMLElement): boolean {
  return selectionTouches(node) || node.contains(document.activeElement);
}

/** The open session was deleted: discards its draft and opens another session. */
function leave(key: string): void {
  open.watch?.close();
  keepHere(`draft.${key}`, "");
  keepHere(`edited.${key}`, "");
  if (!views.shown.value) history.replaceState(null, "", location.pathname);
  open = { ...open, key: null };
  void start();
  setTimeout(() => say(byId("busy"), t("That session was deleted.")), 400);
}

/** Announces final messages of the agent: to screen readers, and by a dot in the title of a hidden tab. */
function announce(final: Entry[]): void {
  const said = final.filter((entry) => entry.role === "agent" && entry.text);
  if (!said.length) return;
  say(byId("told"), t("{agent} said: {text}", { agent: context.agent(), text: said.at(-1)!.text.slice(0, 300) }));
  news = document.hidden;
  drawTitle();
}

function accepted(key: string, message: OutgoingMessage): void {
  sessions.soon();
  if (key !== open.key) return;
  if (message.waits && message.event !== undefined) {
    open.view.whys.set(message.event, message.waits);
    redraw(() => open.view.lineUp(), false);
  }
  outgoing.settle(key, message, open.view.hasEntryOf(message.event));
  if (open.watch === null) watch();
  else open.watch?.hurry(); // the message may have created the session: watch it now
}

function draw(): void {
  const { key, view, fresh = false } = open;
  if (key === null) return;
  head.value = { key, view, isFresh: fresh, agents };
  show(byId("manage-button"), !fresh);
  drawTitle();
  showOlder();
  drawWelcome(key, view, fresh);
  drawState();
}

function drawWelcome(key: string, view: Transcript, fresh: boolean): void {
  const isEmpty = view.rows.size === 0 && (fresh || view.rev !== null) && !outgoing.shown(key).length;
  const agent = view.session.value.agent ?? /^([^:]+):/.exec(key)?.[1] ?? "";
  const old = empty.value;
  if (!isEmpty) empty.value = null;
  else if (old?.key !== key || old.agent !== agent || old.isFresh !== fresh) empty.value = { key, agent, isFresh: fresh };
  show(byId("welcome"), isEmpty);
}

let news = false; // whether the agent said something while the tab was hidden

/** The title of the tab: how many things need somebody, or that there is news, and what is open. */
function drawTitle(): void {
  const name = views.title.value ?? (head.value && nameOf(head.value));
  if (name === null) return;
  if (!document.hidden) news = false;
  const needed = sessions.needed.value;
  const sign = needed ? `(${needed}) ` : news ? "• " : "";
  document.title = `${sign}${name} · Semel`;
}

let seeing: ReturnType<typeof setTimeout> | undefined;
const seen = new Map<string, number>();

/** Tells the gateway up to where the owner has seen the open session, a moment after it has changed. */
function tellSeen(): void {
  clearTimeout(seeing);
  seeing = setTimeout(() => {
    const { key, view } = open;
    if (key === null || view.rev === null || document.hidden || !document.hasFocus() || jump.last !== null || views.shown.value) return;
    if (seen.get(key) === view.rev) return;
    seen.set(key, view.rev);
    ask("POST", at(key, "/seen"), { rev: view.rev }).catch(() => seen.delete(key));
  }, SEEN_MS);
}

function drawState(): void {
  const { view, fresh = false, key } = open;
  const session = view.session.value;
  const running = session.state === "running";
  const isLive = line.value === "live";
  const retryAt = running && isLive ? session.retry_at : undefined;
  const isAsked = view.items("permission").some((item) => item.state === "open");
  byId("busy").classList.remove("wrong");
  byId("composer").dataset.state = session.state || "idle";
  say(byId("busy"), describeActivity({ session, isAsked, trouble: gateways.describeTrouble(session.gateway), quietMs: Date.now() - changed, isLive }));
  show(byId("stop"), running || session.state === "waiting"); // also what is about to begin
  busy.draw(fresh ? null : key, fresh ? null : session);
  clearTimeout(counting);
  say(byId("again"), retryAt === undefined ? "" : t("· tried again {when}", { when: timeLeft(retryAt) }));
  if (retryAt !== undefined) counting = setTimeout(drawState, 1000 - (Date.now() % 1000));
  else if (running) counting = setTimeout(drawState, SILENCE_MS - ((Date.now() - changed) % SILENCE_MS));
}

function link(state: LineState): void {
  if (state === line.value) return;
  if (state === "live" && line.value === "lost") outgoing.resendWaiting();
  line.value = state;
  document.body.dataset.line = state;
  drawState();
}

/** The button keeps its room once it was there: else the rows would move as it goes. */
function showOlder(): void {
  const more = open.view.before.value !== null;
  if (more) byId("top").classList.add("had");
  show(byId("older"), more);
}

async function older(): Promise<void> {
  const { key, view } = open;
  if (key === null) return;
  byId<HTMLButtonElement>("older").disabled = true;
  await attempt(async () => {
    const page = await ask<Stretch>("GET", at(key, `/history?limit=200&before=${view.before.value}`));
    if (open.view !== view) return;
    redraw(() => view.prepend(page), false);
    showOlder();
  });
  byId<HTMLButtonElement>("older").disabled = false;
}

let height = 0; // where the reader was at the last scroll event, in pixels

/** Loads older rows as soon as somebody who scrolls up is a screen away from the first one. */
function olderOnTheWayUp(): void {
  const { scrollTop, clientHeight } = byId("scroller");
  const button = byId<HTMLButtonElement>("older");
  if (scrollTop < height && scrollTop < clientHeight && !place.pinned && !button.hidden && !button.disabled) void older();
  height = scrollTop;
}

// ---------------------------------------------------------------- navigation

/** Goes to a new session with `agent`. Default: the gateway's default agent, the first of those configured. */
async function begin(agent?: string): Promise<void> {
  drawer(false);
  const { configured = [] } = await ask<{ configured?: string[] }>("GET", "/v1/status").catch(() => ({ configured: [] }));
  const first = agent ?? configured[0] ?? open.view.session.value.agent; // this one without a connection
  const key = [first, "web", `${new Date().toISOString().slice(0, 10)}-${freshId().slice(0, 5)}`].filter(Boolean).join(":");
  agents = { current: first, options: configured.map((name) => ({ id: name, text: name })) };
  location.hash = `#/new/${encodeURIComponent(key)}`;
}

/** Goes from a view to the conversation that is open behind it, or to the newest. */
function leaveView(): void {
  location.hash = open.key === null ? "" : `#/${open.fresh ? "new" : "s"}/${encodeURIComponent(open.key)}`;
  if (open.key === null) void start();
}

/** Opens or closes the list on a narrow window, from which the focus goes back. Returns whether that changed anything. */
function drawer(yes: boolean): boolean {
  const changes = document.body.classList.contains("drawer") !== yes;
  if (changes && !yes && byId("side").contains(document.activeElement)) byId("menu").focus();
  document.body.classList.toggle("drawer", yes);
  byId("menu").setAttribute("aria-expanded", String(yes));
  return changes;
}

const canStep = ({ target }: Event): boolean => !isCovered() && !(target instanceof HTMLSelectElement); // there it opens the menu

/** Goes so many sessions down in the list. Returns whether there is one. */
function step(count: number): boolean {
  const keys = sessions.listed.value.map((one) => one.key);
  const key = keys[keys.indexOf(open.key ?? "") + count];
  if (key === undefined) return false;
  location.hash = `#/s/${encodeURIComponent(key)}`;
  return true;
}

function route(): boolean {
  const wasView = views.shown.peek() !== null;
  const isView = views.route();
  opened.value = isView ? null : open.key;
  drawTitle();
  if (isView) return true;
  if (wasView) composer.takeFocus();
  tellSeen();
  const found = /^#\/(s|new)\/([^/]+)(?:\/(\d{1,15}|open))?$/.exec(location.hash);
  if (!found) return false;
  let key: string;
  try {
    key = decodeURIComponent(found[2]!);
  } catch {
    return false; // a broken address, typed by hand
  }
  if (key !== open.key) choose(key, found[1] === "new" && !sessions.rows.value.has(key));
  if (found[3]) jump.aim(found[3] === "open" ? "open" : Number(found[3]));
  return true;
}

async function start(): Promise<void> {
  if (location.hash.startsWith("#/s/")) route(); // the conversation first: it does not wait for the list
  const listed = sessions.refresh();
  void channels.refresh();
  void gateways.refresh();
  outgoing.kickAll();
  await listed;
  if (route()) return open.watch?.source === null ? open.watch.open() : undefined;
  const first = sessions.sorted.value[0];
  if (first) location.replace(`#/s/${encodeURIComponent(first.key)}`);
  else if (!isLoggedOut()) await begin();
}

/**
 * Loads what is not needed at the start, for the conversation comes first: what is shown on demand, which then opens without
 * a connection, too, or after an upgrade of the gateway; and, by its name, what a browser needs to install the page.
 */
function loadTheRest(): void {
  void loadLater().catch(() => {}); // it is tried again when it is needed
  const needed = { manifest: "manifest.webmanifest", "apple-touch-icon": "icon-192.png" };
  for (const [rel, name] of Object.entries(needed)) document.head.append(element("link", { rel, href: `/page/${name}` }));
}

byId("new").addEventListener("click", () => begin());
byId("keys-button").addEventListener("click", showKeys);
byId("settings-button").addEventListener("click", () => withLater(({ openSettings }) => openSettings()));
byId("older").addEventListener("click", older);
byId("scroller").addEventListener("scroll", olderOnTheWayUp, { passive: true });
byId("side").addEventListener("wanted", () => drawer(true));
byId("menu").addEventListener("click", () => {
  if (!drawer(false) && drawer(true)) byId("new").focus(); // the list lies over the button
});
byId("stop").addEventListener("click", () => {
  const { state, turn } = open.view.session.value;
  void attempt(() => ask("POST", at(open.key!, "/stop"), { turn: state === "running" ? turn : undefined, seen: open.view.rev ?? undefined }));
});
document.querySelector("main")!.addEventListener("click", (event) => (event.target as Element).closest("#menu") || drawer(false));
document.querySelector("main")!.addEventListener("focusin", () => drawer(false));
bindKeys(document, t("Everywhere"), [
  { key: "Alt+N", does: t("Start a new session"), press: () => !isCovered() && (void begin(), true) },
  { key: "Alt+A", does: t("To what waits for your answer"), press: () => !isCovered() && list.focusOpen() },
  { key: "Alt+Q", does: t("Quote what is selected in the conversation"), press: () => !isCovered() && quoteSelection() },
  { key: "Alt+ArrowUp", does: t("To the session above"), press: (event) => canStep(event) && step(-1) },
  { key: "Alt+ArrowDown", does: t("To the session below"), press: (event) => canStep(event) && step(1) },
  { key: "Escape", does: t("Close what lies over the page"), press: () => drawer(false) },
]);
addEventListener("focus", tellSeen);
document.addEventListener("visibilitychange", () => {
  rest();
  if (!document.hidden) {
    draw();
    tellSeen();
  }
});
addEventListener("hashchange", async () => route() || ((await loginByLink()) && start()));
setTimeout(loadTheRest, REST_OF_PAGE_MS);
login(start);
await loginByLink();
await start();
