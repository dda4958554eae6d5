import type { components } from "./schema";

/** States in which a job changes no more. */
export const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "canceled", "expired"]);

export function labelsOf({ labels }: Pick<components["schemas"]["JobInFull"], "labels">): string {
  return Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(", ");
}
