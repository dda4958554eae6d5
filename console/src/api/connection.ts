import { useSyncExternalStore } from "react";

const LOOK_MS = 5000; // a packet that is lost is not answered at all

/** Whether the server answers: what a banner tells of, and what has the pages load again once it does. */
let isConnected = true;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<(isConnected: boolean) => void>();

/** A call got no answer. Only looking again ends that: another call may be answered from the browser's cache. */
export function reportLoss(): void {
  change(false);
}

function change(works: boolean): void {
  if (works === isConnected) {
    return;
  }
  isConnected = works;
  clearTimeout(timer);
  if (!works || !navigator.onLine) {
    timer = setTimeout(lookAgain, 1000); // an answer that comes without a network may have been under way when that went
  }
  for (const listener of listeners) {
    listener(works);
  }
}

async function lookAgain(): Promise<void> {
  try {
    await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(LOOK_MS) });
    change(true);
  } catch {
    if (isConnected) {
      change(false);
    } else {
      timer = setTimeout(lookAgain, 1500);
    }
  }
}

// Without a network nothing is asked for, and so nothing fails: the browser itself knows.
window.addEventListener("offline", reportLoss);

export function subscribeConnection(listener: (isConnected: boolean) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useIsConnected(): boolean {
  return useSyncExternalStore(subscribeConnection, () => isConnected);
}
