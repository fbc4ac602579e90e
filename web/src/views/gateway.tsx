// The gateway's views, each with an address of its own.

import type { ComponentType } from "preact";
import { t } from "../texts.ts";
import { TABS, type Tab } from "./address.ts";
import { JobsView } from "./jobs.tsx";
import { OutboxView } from "./outbox.tsx";
import { SchedulesView } from "./schedules.tsx";
import { StatusView } from "./status.tsx";
import type { ViewProps } from "./views.tsx";

const VIEWS: Record<Tab, ComponentType<ViewProps>> = { status: StatusView, outbox: OutboxView, schedules: SchedulesView, jobs: JobsView };

export function GatewayView({ tab, list }: { tab: Tab } & ViewProps) {
  const View = VIEWS[tab];
  return (
    <>
      <nav class="tabs" aria-label={t("Gateway")}>
        {Object.entries(TABS).map(([name, title]) => (
          <a key={name} href={`#gateway/${name}`} aria-current={name === tab ? "page" : undefined}>{title}</a>
        ))}
      </nav>
      <View key={tab} list={list} />
    </>
  );
}
