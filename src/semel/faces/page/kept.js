// The browser's local storage: drafts, and messages that the gateway has not acknowledged yet.

export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`semel.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  try {
    if (value === null || value === "" || value.length === 0) localStorage.removeItem(`semel.${name}`);
    else localStorage.setItem(`semel.${name}`, JSON.stringify(value));
  } catch {
    // without storage the page works, but a reload loses drafts and unsent messages
  }
}

export function keptNames(prefix) {
  try {
    const start = `semel.${prefix}`;
    return Object.keys(localStorage).filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  } catch {
    return [];
  }
}
