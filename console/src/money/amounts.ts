import { dollars } from "../format";

/** Amounts are summed in whole units of 10^-8 dollars, as the server keeps them: sums of fractions would drift. */
const DIGITS = 8;

export function unitsOf(dollars: string | null | undefined): bigint {
  const text = dollars ?? "0";
  const [whole = "0", rest = ""] = text.replace("-", "").split(".");
  const units = BigInt(whole + rest.slice(0, DIGITS).padEnd(DIGITS, "0"));
  return text.startsWith("-") ? -units : units;
}

export function dollarsOf(units: bigint): string {
  const digits = (units < 0n ? -units : units).toString().padStart(DIGITS + 1, "0");
  return `${units < 0n ? "-" : ""}${digits.slice(0, -DIGITS)}.${digits.slice(-DIGITS)}`;
}

/** The kinds of ledger entries, in the words of a reader. */
export const ENTRIES: Readonly<Record<string, string>> = { credit: "Payment", hold: "Hold", raise: "Hold changed", post: "Charge", void: "Hold released", refund: "Refund", rerate: "Re-rate" };

/** What an entry changes; a dash where it changes nothing. */
export function change(amount: string): string {
  return unitsOf(amount) === 0n ? "–" : dollars(amount);
}

/** Rows as CSV; a text that a spreadsheet would take for a formula is quoted with an apostrophe. */
export function csvOf(rows: readonly (readonly (string | number)[])[]): Blob {
  const cell = (value: string | number) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) && !/^-?[\d.]+$/.test(value) ? `'${value}` : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return new Blob([rows.map((row) => row.map(cell).join(",")).join("\n"), "\n"], { type: "text/csv" });
}
