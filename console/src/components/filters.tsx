import { useDeferredValue } from "react";
import { useSearchParams } from "wouter";
import { Field } from "./basics";

interface Filters<Name extends string> {
  valueOf: (name: Name | "all") => string;
  set: (name: Name | "all", value: string) => void;
  /** Those that have a value, to be sent; they follow what is typed when there is time for it. */
  sent: Partial<Record<Name, string>>;
  isFiltered: boolean;
  /** Show everything again. */
  clear: () => void;
}

/** What a list is narrowed by. It stands in the address of the page, so that a link leads to the same list. */
export function useFilters<Name extends string>(names: readonly Name[]): Filters<Name> {
  const [search, setSearch] = useSearchParams();
  const text = useDeferredValue(search.toString());
  const typed = new URLSearchParams(text);
  const change = (change: (before: URLSearchParams) => void) =>
    setSearch((before) => {
      change(before);
      return before;
    }, { replace: true });
  return {
    valueOf: (name) => search.get(name) ?? "",
    set: (name, value) => change((before) => (value ? before.set(name, value) : before.delete(name))),
    sent: Object.fromEntries(names.flatMap((name) => (typed.get(name) ? [[name, typed.get(name)]] : []))) as Partial<Record<Name, string>>,
    isFiltered: names.some((name) => search.get(name)),
    clear: () => change((before) => names.forEach((name) => before.delete(name))),
  };
}

/** From which day on, and up to which day. */
export function Period({ filters }: { filters: Filters<"from" | "to"> }) {
  return (
    <>
      <Field label="From">
        {(control) => <input {...control} className="input" type="date" value={filters.valueOf("from")} onChange={(event) => filters.set("from", event.target.value)} />}
      </Field>
      <Field label="To">
        {(control) => <input {...control} className="input" type="date" value={filters.valueOf("to")} onChange={(event) => filters.set("to", event.target.value)} />}
      </Field>
    </>
  );
}
