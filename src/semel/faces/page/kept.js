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

/** As `kept`, but what this tab kept: another tab with the same session has a draft of its own. */
export function keptHere(name) {
  try {
    return JSON.parse(sessionStorage.getItem(`semel.${name}`));
  } catch {
    return null;
  }
}

/** Keeps a value for this tab, and for tabs that are opened later. */
export function keepHere(name, value) {
  try {
    sessionStorage.setItem(`semel.${name}`, JSON.stringify(value));
  } catch {
    // as above
  }
  keep(name, value);
}

export function keptNames(prefix) {
  try {
    const start = `semel.${prefix}`;
    return Object.keys(localStorage).filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
  } catch {
    return [];
  }
}
