/** Dollars as people read them: at least two decimals, and all there are of a small amount. */
export function dollars(amount: string | number | null | undefined): string {
  if (amount === null || amount === undefined || amount === "") {
    return "–";
  }
  const text = typeof amount === "number" ? amount.toFixed(8) : amount;
  const isNegative = text.startsWith("-");
  const [whole = "0", rest = ""] = text.replace("-", "").split(".");
  const cut = rest.slice(0, 8).replace(/0+$/, "").padEnd(2, "0");
  return `${isNegative ? "−" : ""}$${BigInt(whole || "0").toLocaleString("en-US")}.${cut}`;
}

/** Dollars in a sentence or a figure: rounded to cents, unless that would hide all of it. */
export function roundDollars(amount: string | number | null | undefined): string {
  const value = Number(amount ?? 0);
  if (value !== 0 && Math.abs(value) < 0.01) {
    return dollars(value.toPrecision(2).includes("e") ? value : value.toPrecision(2));
  }
  return `${value < 0 ? "−" : ""}$${Math.abs(value).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

const DATE_TIME = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function dateTime(at: string | number | null | undefined): string {
  return at ? DATE_TIME.format(new Date(at)) : "–";
}

const SHORT_TIME = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A time of the last months, for a narrow column; the full one belongs in its title. */
export function shortTime(at: string | number): string {
  return SHORT_TIME.format(new Date(at));
}

export function date(at: string | number | null | undefined): string {
  return at ? DATE.format(new Date(at)) : "–";
}

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
];

/** How long ago something was, in the largest unit that fits. */
export function ago(at: string | number, now = Date.now()): string {
  const seconds = (new Date(at).getTime() - now) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(seconds) >= size) {
      return RELATIVE.format(Math.round(seconds / size), unit);
    }
  }
  return seconds > -10 ? "just now" : RELATIVE.format(Math.round(seconds), "second");
}

export function duration(ms: number): string {
  if (ms < 1000) {
    return `${Math.round(ms)} ms`;
  }
  const seconds = ms / 1000;
  return seconds < 60 ? `${seconds.toFixed(1)} s` : `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

export function bytes(size: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (size >= 1024 && at < units.length - 1) {
    size /= 1024;
    at += 1;
  }
  return `${at === 0 ? size : size.toFixed(1)} ${units[at]}`;
}

/** `in_flight` as people write it: "In flight". */
export function words(name: string): string {
  const spaced = name.replace(/[_-]+/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2").trim().toLowerCase();
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}
