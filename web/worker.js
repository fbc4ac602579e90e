// The page's service worker. It shows notifications, and leads from one to its session: a phone's browser shows none
// without a worker. It answers no requests and keeps nothing, so it can neither serve an old page nor remember a word.

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

/** {show: {tag, title, body}, open: the hash of the session}, or {hide: tag}. */
addEventListener("message", (event) => event.waitUntil(take(event.data)));

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(lead(event.notification.data));
});

const pages = () => clients.matchAll({ type: "window", includeUncontrolled: true });

async function take({ show, open, hide }) {
  if (hide) for (const shown of await registration.getNotifications({ tag: hide })) shown.close();
  if (!show || (await pages()).some((page) => page.visibilityState === "visible")) return; // somebody looks at another tab
  const { title, body, tag } = show;
  await registration.showNotification(title, { body, tag, data: open, icon: "/page/icon-192.png", badge: "/page/icon-192.png" });
}

async function lead(hash) {
  const [page] = (await pages()).filter(({ url }) => new URL(url).pathname === "/");
  if (!page) return clients.openWindow(`/${hash}`);
  page.postMessage({ open: hash });
  await page.focus();
}
