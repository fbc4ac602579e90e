// The page's service worker. It shows notifications, and leads from one to its session: a phone's browser shows none
// without a worker. It answers no requests and keeps nothing, so it can neither serve an old page nor remember a word.

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

/**
 * Messages are {show: {tag, title, body}, told: [session, how many needs it has]}, or {hide: tag}. A tag is the hash of a
 * session's address. Once a notification was shown, {told} goes back to all pages, which keep it.
 */
addEventListener("message", (event) => event.waitUntil(handleMessage(event.data)));

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(leadToSession(event.notification.tag));
});

const listPages = () => clients.matchAll({ type: "window", includeUncontrolled: true });

async function handleMessage({ show, told, hide }) {
  if (hide) for (const shown of await registration.getNotifications({ tag: hide })) shown.close();
  if (!show || (await listPages()).some((page) => page.visibilityState === "visible")) return; // somebody looks at another tab
  const { title, body, tag } = show;
  const isShown = (await registration.getNotifications({ tag })).some(({ data }) => data >= told[1]); // another tab asked for it
  const icon = "/page/icon-192.png";
  if (!isShown) await registration.showNotification(title, { body, tag, data: told[1], icon, badge: icon });
  for (const page of await listPages()) page.postMessage({ told });
}

/** Leads to a session: in the page that shows it, else in one that somebody sees, else in the one that was used last. */
async function leadToSession(hash) {
  const open = (await listPages()).filter(({ url }) => new URL(url).pathname === "/"); // the one used last comes first
  const session = sessionOf(hash);
  const page = open.find(({ url }) => sessionOf(new URL(url).hash) === session) ?? open.find(({ visibilityState }) => visibilityState === "visible") ?? open[0];
  if (!page) return clients.openWindow(`/${hash}`);
  page.postMessage({ open: hash });
  await page.focus();
}

const sessionOf = (hash) => /^#\/s\/[^/]+/.exec(hash)?.[0];
