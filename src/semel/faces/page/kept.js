// What this browser keeps for the reader: drafts and messages that no answer has come for yet.

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
    // a browser that keeps nothing still talks; only a reload forgets
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
