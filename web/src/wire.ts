// What the gateway's API answers about sessions (docs/api.md): entries, items, states, and the frames of a stream.

export type Role = "user" | "agent" | "event" | "notice";
export type BusyMode = "queue" | "steer" | "interrupt" | "collect";

export interface Delivery {
  to: string;
  state: "queued" | "sending" | "sent" | "unknown" | "held" | "rejected" | "dropped";
  part: number;
  parts?: number;
  failed?: boolean;
  error?: string;
  /** It asks about something that is over: it cannot be sent again. */
  over?: boolean;
  held?: number[];
  rejected?: number[];
}

export interface FileRef {
  id?: string;
  width?: number;
  height?: number;
  name?: string;
  mime?: string;
  size?: number;
  missing?: string;
  uri?: string;
  voice?: boolean;
  transcript?: string;
  untranscribed?: string;
}

export interface Entry {
  seq: number;
  born: number;
  rev: number;
  at: number;
  role: Role;
  text: string;
  live?: boolean;
  partial?: boolean;
  superseded?: boolean;
  turn?: number;
  event?: number;
  kind?: string;
  sender?: string;
  to?: string;
  from?: string;
  files?: FileRef[];
  of?: number;
  quote?: string;
  whose?: string;
  edited?: number;
  deleted?: number;
  removed?: boolean;
  data?: Record<string, unknown>;
  item?: number;
  tool?: boolean;
  late?: boolean;
  behind?: number;
  echoes?: number;
  delivery?: Delivery[];
  waiting?: BusyMode;
  joined?: boolean;
  automatic?: boolean;
  covers?: { first: number; last: number };
}

export interface Diff {
  path: string;
  oldText?: string;
  newText?: string;
  left_out?: number;
}

export interface Option {
  optionId?: string;
  id?: string;
  name?: string;
  kind?: string;
}

/** An item of any kind: each kind has some of these fields. A kind that this page does not know has others. */
export interface Item {
  id: number;
  born: number;
  rev: number;
  kind: string;
  text: string;
  /** When it came, and when it ended, in ms; older items lack them. */
  at?: number;
  ended_at?: number;
  turn?: number;
  live?: boolean;
  name?: string;
  files?: FileRef[];
  title?: string;
  status?: string;
  call?: string;
  tool_kind?: string;
  input?: unknown;
  diffs?: Diff[];
  exit?: number | null;
  gap?: number;
  tail?: string;
  coloured?: boolean;
  truncated?: boolean;
  superseded?: boolean;
  entries?: { content: string; status?: string }[];
  state?: "open" | "answered" | "cancelled" | "expired";
  options?: Option[];
  answer?: string;
  by?: string;
  used?: number;
  size?: number;
  cost?: { amount?: number; currency?: string };
  /** Of a line of tool calls, which the page makes: how many there are, and how many failed. */
  calls?: number;
  failed?: number;
}

/** The state of a session. Before the first snapshot, nothing of it is known. */
export interface SessionState {
  key?: string;
  agent?: string;
  home?: string | null;
  state?: "idle" | "running" | "waiting" | "deleted";
  waiting?: number;
  turn?: number;
  title?: string | null;
  /** The gateway of a cluster that serves it. */
  gateway?: string;
  archived?: boolean;
  busy?: BusyMode;
  retry_at?: number;
  mode?: string;
  model?: string;
  modes?: { currentModeId?: string; availableModes?: { id: string; name?: string }[] };
  unattended_modes?: string[];
  models?: { currentModelId?: string; currentValue?: string; availableModels?: ModelOffer[]; options?: ModelOffer[] };
  commands?: { name: string; description?: string }[];
  tools?: boolean;
}

export interface ModelOffer {
  modelId?: string;
  value?: string;
  id?: string;
  name?: string;
}

export type Change =
  | ({ op: "entry" } & Entry)
  | ({ op: "item" } & Item)
  | { op: "append"; rev: number; seq: number; text: string }
  | { op: "output"; rev: number; id: number; text: string }
  | ({ op: "session"; rev: number } & SessionState);

/** A stretch of a session's history. `before` is what a request for the stretch before it sends; `more`: there is one. */
export interface Stretch {
  entries: Entry[];
  items: Item[];
  more: boolean;
  before?: number;
}

export interface Snapshot extends Stretch {
  type: "snapshot";
  rev: number;
  session: SessionState;
}

export interface Changes {
  type: "change";
  rev: number;
  changes: Change[];
}

export type Frame = Snapshot | Changes;

// ---------------------------------------------------------------- the list of sessions

/** A session as the list shows it. */
export interface ListedSession extends SessionState {
  key: string;
  rev: number;
  at: number;
  last: string;
  /** How many entries came after the rev that the owner has seen. */
  unread?: number;
  approvals?: number;
  questions?: number;
  held?: number;
  failed?: string | null;
}

export type ListFrame =
  | { type: "snapshot"; rev: number; sessions: ListedSession[]; more: boolean }
  | { type: "change"; rev: number; changes: (({ op: "session" } & ListedSession) | { op: "gone"; key: string })[] };

// ---------------------------------------------------------------- what needs somebody, and what leaves for platforms

export interface OutgoingPart {
  id: number;
  state: Delivery["state"];
  session: string;
  channel: string;
  dest: string;
  /** "post", or what else is done there: "file", "edit", ... */
  kind: string;
  text: string;
  claim?: number;
  attempts: number;
  at: number;
  due?: number;
  behind?: number;
  error?: string;
  failed?: number;
  /** It asks about something that is over: it cannot be sent again. */
  over?: boolean;
}

export interface Need {
  session: string;
  title?: string;
  why: "approval" | "question" | "failed" | "silent" | "held" | "limit";
  at: number;
  turn?: string;
  item?: Item;
  part?: OutgoingPart;
  error?: string;
  until?: number;
  /** The name of the time zone in which the day of the limit ends. */
  tz?: string;
  limit?: { scope: string; subject: string; measure: string };
}

// ---------------------------------------------------------------- the gateway

export interface AgentProcess {
  session: string;
  agent: string;
  spawn: number;
  busy: boolean;
  name: string;
  tools: boolean | null;
  problem: string;
  pid: number | null;
  memory: number | null;
  usage: { used?: number; size?: number; percent?: number; cost?: { amount?: number; currency?: string } } | null;
}

/** The state of the gateway: of what GET /v1/status answers, what the page shows. Times in ms, sizes in bytes. */
export interface GatewayStatus {
  version: string;
  started: number;
  problem: string | null;
  configured: string[];
  workspaces: Record<string, string>;
  checks: Record<string, { level: "ok" | "warning" | "broken"; text: string; remedy: string; at: number }>;
  agents: AgentProcess[];
  turns: number;
  watchers: number;
  missing_agents: { text: string }[];
  missing_channels: { text: string }[];
  channels: ChannelState[];
  parts: Record<string, number>;
  rejected: number;
  database: string | null;
  object_storage: { url: string; problem: string | null } | null;
  disk: { free: number; ledger: number; files: number; growth: number | null };
  backup: { folder: string; at: number } | null;
  books: { at: number; seconds: number; laws: number; entries: number; broken: string[] } | null;
}

export interface Book {
  name: string;
  ok: boolean;
  what: string;
  rows: unknown[];
}

export interface Schedule {
  name: string;
  session: string;
  text: string;
  tz: string;
  source: "config" | "api" | "agent";
  enabled: boolean;
  next: number | null;
  last: { due: number; ran: number; state: string; by?: string } | null;
  cron?: string;
  at?: string;
  every?: string;
  error?: string;
  unconfigured?: boolean;
}

export interface Job {
  id: string;
  session: string;
  agent: string;
  state: "asked" | "running" | "finished" | "lost" | "failed";
  command: string;
  seconds: number;
  at: number;
  name?: string;
}

export interface Story {
  ref: string;
  kind: string;
  lines: { at: number; text: string }[];
}

// ---------------------------------------------------------------- channels, people, gateways, search

export interface ChannelState {
  name: string;
  kind: string;
  state: "starting" | "online" | "offline" | "denied";
  since: number;
  error?: string | null;
  retry_at?: number | null;
  counts: { accepted: number; quarantined: number };
  refused: Record<string, number>;
  /** Whether people have accounts there. */
  people?: boolean;
}

export interface Person {
  name: string;
  role: string;
  accounts: { account: string; origin: string }[];
}

export interface Stranger {
  account: string;
  name: string;
  times: number;
  last: number;
}

export interface PairingCode {
  code: string;
  channel: string;
  name?: string | null;
  role: string;
  expires: number;
  state?: "open" | "used" | "void";
  account?: string;
}

export interface GatewayRow {
  name: string;
  address?: string | null;
  host: string;
  version: string;
  joined: number;
  seen: number;
  silent_s: number;
  is_active: boolean;
  serves: boolean;
  agents: number;
  room: number;
}

export interface MissingGateway {
  gateway: string;
  sessions: number;
  newest: string[];
}

export interface SearchHit {
  session: string;
  seq: number;
  at: number;
  role: Role;
  snippet: { text: string; hit?: boolean }[];
  title?: string;
  sender?: string;
  kind?: string;
}

export interface SearchPage {
  hits: SearchHit[];
  next: string | null;
  index: { current: boolean };
}
