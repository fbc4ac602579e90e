// The parts that leave, by where they go.

import type { OutgoingPart } from "../wire.ts";

/** The parts of each destination, the oldest first; and first the destination whose oldest part is the oldest of all. */
export function byDestination(parts: readonly OutgoingPart[]): [dest: string, parts: OutgoingPart[]][] {
  const groups = new Map<string, OutgoingPart[]>();
  for (const part of [...parts].sort((one, other) => one.at - other.at || one.id - other.id)) {
    if (!groups.has(part.dest)) groups.set(part.dest, []);
    groups.get(part.dest)!.push(part);
  }
  return [...groups];
}
