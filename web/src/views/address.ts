// The addresses of the views: "#needs", "#gateway/outbox".

import { t } from "../texts.ts";

export const TABS = { status: t("Status"), outbox: t("Outbox"), schedules: t("Schedules"), jobs: t("Jobs") };
export type Tab = keyof typeof TABS;
export type ViewAddress = { view: "needs" } | { view: "gateway"; tab: Tab };

/** The view that an address's fragment names; null: it names none. */
export function viewOf(hash: string): ViewAddress | null {
  const [, view, tab = "status"] = /^#(needs|gateway)(?:\/([a-z]+))?$/.exec(hash) ?? [];
  if (view === "needs") return hash === "#needs" ? { view } : null;
  return view === "gateway" && Object.hasOwn(TABS, tab) ? { view, tab: tab as Tab } : null;
}

/** What the browser's tab says. */
export const titleOf = (address: ViewAddress): string => (address.view === "needs" ? t("Needs you") : t("Gateway: {tab}", { tab: TABS[address.tab] }));
