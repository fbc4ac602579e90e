// The browser's local storage: drafts, and messages that the gateway has not acknowledged yet.

/** What was kept under a name, or `otherwise` if there is nothing that can be read. */
export function kept<T>(name: string, otherwise: T): T {
  try {
    return JSON.parse(localStorage.getItem(`semel.${name}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Keeps a value. An empty text or list, and null, remove what was kept. */
export function keep(name: string, value: string | unknown[] | null): void {
  try {
    if (value === null || value.length === 0) localStorage.removeItem(`semel.${name}`);
    else localStorage.setItem(`semel.${name}`, JSON.stringify(value));
  } catch {
    // without storage the page works, but a reload loses drafts and unsent messages
  }
}

/** As `kept`, but what this tab kept: another tab with the same session has a draft of its own. */
export function keptHere(name: string): string | null {
  try {
    return JSON.parse(sessionStorage.getItem(`semel.${name}`) ?? "null");
  } catch {
    return null;
  }
}

/** Keeps a value for this tab, and for tabs that are opened later. */
export function keepHere(name: string, value: string): void {
  try {
    sessionStorage.setItem(`semel.${name}`, JSON.stringify(value));
  } catch {
    // as above
  }
  keep(name, value);
}

export function keptNames(prefix: string): string[] {
  try {
    const start = `semel.${prefix}`;
    return Object.keys(localStorage).filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  } catch {
    return [];
  }
}
