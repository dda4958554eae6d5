import { useSyncExternalStore } from "react";

/** Whether the server answers: what a banner tells of, and what has the pages load again once it does. */
let isConnected = true;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

export function reportConnection(works: boolean): void {
  if (works === isConnected) {
    return;
  }
  isConnected = works;
  clearTimeout(timer);
  if (!works || !navigator.onLine) {
    timer = setTimeout(lookAgain, 1000); // an answer that comes without a network may have been under way when that went
  }
  for (const listener of listeners) {
    listener();
  }
}

async function lookAgain(): Promise<void> {
  try {
    await fetch("/healthz", { cache: "no-store" });
    reportConnection(true);
  } catch {
    if (isConnected) {
      reportConnection(false);
    } else {
      timer = setTimeout(lookAgain, 1500);
    }
  }
}

// Without a network nothing is asked for, and so nothing fails: the browser itself knows.
window.addEventListener("offline", () => {
  reportConnection(false);
});

export function subscribeConnection(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useIsConnected(): boolean {
  return useSyncExternalStore(subscribeConnection, () => isConnected);
}
