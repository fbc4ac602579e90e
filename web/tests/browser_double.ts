// Stand-ins for what modules use of a browser: storage, events, requests and event streams. A test plays the gateway.

export class StorageDouble {
  [name: string]: unknown;
  getItem(name: string): string | null {
    return (this[name] as string | undefined) ?? null;
  }
  setItem(name: string, value: string): void {
    this[name] = value;
  }
  removeItem(name: string): void {
    delete this[name];
  }
}

export interface Request {
  method: string;
  path: string;
  body: any;
  /** Answers it. */
  answer: (status: number, body: unknown) => void;
  /** Loses it: no answer comes, and the outcome is unknown. */
  lose: () => void;
}

export class EventSourceDouble extends EventTarget {
  static CLOSED = 2;
  static opened: EventSourceDouble[] = [];
  readyState = 1;
  url: string;

  constructor(url: string) {
    super();
    this.url = url;
    EventSourceDouble.opened.push(this);
  }
  close(): void {
    this.readyState = EventSourceDouble.CLOSED;
  }
  send(type: string, data: unknown): void {
    this.dispatchEvent(new MessageEvent(type, { data: JSON.stringify(data) }));
  }
  /** The gateway refused the connection, or it broke; the browser reconnects by itself unless it was `refused`. */
  fail(refused: boolean): void {
    if (refused) this.readyState = EventSourceDouble.CLOSED;
    this.dispatchEvent(new Event("error"));
  }
}

/** Puts the doubles in place of the browser's. Returns the requests that were sent and not answered yet, in order. */
export function installDoubles(): Request[] {
  const open: Request[] = [];
  const events = new EventTarget();
  EventSourceDouble.opened = [];
  Object.assign(globalThis, {
    EventSource: EventSourceDouble,
    addEventListener: events.addEventListener.bind(events),
    removeEventListener: events.removeEventListener.bind(events),
    dispatchEvent: events.dispatchEvent.bind(events),
    document: new EventTarget(),
    fetch: (path: string, init: RequestInit) =>
      new Promise((resolve, reject) => {
        const take = () => open.splice(open.indexOf(request), 1);
        init.signal?.addEventListener("abort", () => open.includes(request) && (take(), reject(new Error("given up"))));
        const request: Request = {
          method: init.method ?? "GET",
          path,
          body: init.body ? JSON.parse(String(init.body)) : undefined,
          answer(status, body) {
            take();
            resolve(new Response(status === 204 ? null : JSON.stringify(body), { status }));
          },
          lose() {
            take();
            reject(new TypeError("Failed to fetch"));
          },
        };
        open.push(request);
      }),
  });
  for (const name of ["localStorage", "sessionStorage"]) {
    Object.defineProperty(globalThis, name, { value: new StorageDouble(), configurable: true });
  }
  return open;
}

/** Lets everything run that waits for a promise alone. */
export const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
