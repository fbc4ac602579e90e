// The addresses of the views.

export type ViewAddress = { view: "needs" };

/** The view that an address's fragment names; null: it names none. */
export const viewOf = (hash: string): ViewAddress | null => (hash === "#needs" ? { view: "needs" } : null);

/** What the tab of the browser says. */
export const titleOf = (_: ViewAddress): string => "Needs you";
