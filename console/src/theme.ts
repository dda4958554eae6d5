import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEPT = "fairlead-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function kept(): Theme {
  const value = localStorage.getItem(KEPT);
  return value === "light" || value === "dark" ? value : "system";
}

/** Put the theme on the page: what was chosen, or what the system wants. */
export function applyTheme(): void {
  const theme = kept();
  document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
  for (const listener of listeners) {
    listener();
  }
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(KEPT, theme);
  applyTheme();
}

dark.addEventListener("change", applyTheme);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, kept);
}

/** Changes with the colours in force, for what is drawn on a canvas. */
export function useColours(): string {
  return useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme ?? "light");
}
