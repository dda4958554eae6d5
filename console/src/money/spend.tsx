import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Download, Receipt } from "lucide-react";
import { Suspense, lazy, useMemo, useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { saveFile } from "../browser";
import { Button, Empty, Field, Figure, Loaded, Loading } from "../components/basics";
import { textInput } from "../components/form-dialog";
import { dollars, roundDollars } from "../format";
import { csvOf, dollarsOf, unitsOf } from "./amounts";

const SpendChart = lazy(() => import("./chart"));

type Row = components["schemas"]["AdminUsageShown"];
type By = "model" | "key" | "workspace" | "label";

const RANGES = [7, 30, 90] as const;
const WAYS: readonly (readonly [By, string])[] = [
  ["model", "Model"],
  ["key", "Key"],
  ["label", "Label"],
  ["workspace", "Workspace"],
];
const NAMED = 7;
const LABEL_NAME = /^[A-Za-z0-9_.-]{1,40}$/;
const DAY_MILLISECONDS = 86_400_000;

/** Spend of each day: of this workspace by model, key or label, or of all workspaces that the reader may see. */
export function Spend() {
  const { me, workspace } = useMe();
  const [days, setDays] = useState<number>(30);
  const [by, setBy] = useState<By>("model");
  const [label, setLabel] = useState("client");
  const from = dayOf(Date.now() - (days - 1) * DAY_MILLISECONDS);
  const ways = me.workspaces.length > 1 ? WAYS : WAYS.filter(([one]) => one !== "workspace");
  const group = by === "label" ? `label:${label.trim()}` : by;
  const usage = useQuery({
    queryKey: ["usage", by === "workspace" ? "" : workspace, from, group],
    queryFn: () => documentOf(api.GET("/api/admin/v1/usage", { params: { query: { workspace: by === "workspace" ? undefined : workspace, from, by: `day,${group}` } } })),
    enabled: by !== "label" || LABEL_NAME.test(label.trim()),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const save = (rows: readonly Row[]) =>
    saveFile(`spend-by-${by}-from-${from}.csv`, csvOf([["day", by, "runs", "succeeded", "dollars"], ...rows.map((one) => [one.day ?? "", nameOf(one, by), one.runs, one.succeeded, one.charge])]));
  return (
    <div className="stack">
      <div className="toolbar">
        <Field label="Period">
          {(control) => (
            <select {...control} className="input" value={days} onChange={(event) => setDays(Number(event.target.value))}>
              {RANGES.map((one) => (
                <option key={one} value={one}>
                  Last {one} days
                </option>
              ))}
            </select>
          )}
        </Field>
        <div className="segments" role="group" aria-label="Group by">
          {ways.map(([one, title]) => (
            <button key={one} type="button" aria-pressed={by === one} onClick={() => setBy(one)}>
              {title}
            </button>
          ))}
        </div>
        {by === "label" && <Field label="Name of the label">{(control) => <input {...control} {...textInput({ value: label, onChange: setLabel })} placeholder="client" />}</Field>}
        <div className="grow" />
        <Button icon={Download} disabled={!usage.data?.items.length} onClick={() => save(usage.data?.items ?? [])}>
          Save as CSV
        </Button>
      </div>
      <Loaded query={usage}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty icon={Receipt} action={<Link className="button primary" href="/explore">Run a model</Link>}>
              Nothing was spent in this period.
            </Empty>
          ) : (
            <Shown rows={items} by={by} from={from} days={days} />
          )
        }
      </Loaded>
    </div>
  );
}

interface Sum {
  amount: bigint;
  runs: number;
  succeeded: number;
}

function Shown({ rows, by, from, days }: { rows: readonly Row[]; by: By; from: string; days: number }) {
  const sums = useMemo(() => {
    const found = new Map<string, Sum>();
    for (const row of rows) {
      const sum = found.get(nameOf(row, by)) ?? { amount: 0n, runs: 0, succeeded: 0 };
      found.set(nameOf(row, by), { amount: sum.amount + unitsOf(row.charge), runs: sum.runs + row.runs, succeeded: sum.succeeded + row.succeeded });
    }
    return [...found].sort(([, one], [, other]) => Number(other.amount - one.amount));
  }, [rows, by]);
  const total = useMemo(
    () => sums.reduce((sum, [, one]) => ({ amount: sum.amount + one.amount, runs: sum.runs + one.runs, succeeded: sum.succeeded + one.succeeded }), { amount: 0n, runs: 0, succeeded: 0 }),
    [sums],
  );
  const { labels, series } = useMemo(() => {
    const all = Array.from({ length: days }, (_, at) => dayOf(Date.parse(from) + at * DAY_MILLISECONDS));
    const named = sums.slice(0, NAMED).map(([name]) => name);
    const values = new Map([...named, ...(sums.length > NAMED ? ["others"] : [])].map((name) => [name, all.map(() => 0)]));
    for (const row of rows) {
      const name = nameOf(row, by);
      const line = values.get(named.includes(name) ? name : "others");
      const at = all.indexOf(row.day ?? "");
      if (line && at >= 0) {
        line[at] = (line[at] ?? 0) + Number(row.charge);
      }
    }
    return { labels: all, series: [...values].map(([name, line]) => ({ name, values: line })) };
  }, [rows, by, from, days, sums]);
  const title = WAYS.find(([name]) => name === by)?.[1];
  return (
    <>
      <div className="figures">
        <Figure label="Spent" value={roundDollars(dollarsOf(total.amount))} />
        <Figure label="Runs" value={total.runs.toLocaleString("en-US")} />
        <Figure label="Succeeded" value={total.succeeded.toLocaleString("en-US")} />
        <Figure label="Not succeeded" value={(total.runs - total.succeeded).toLocaleString("en-US")} />
      </div>
      <section className="card">
        <Suspense fallback={<Loading />}>
          <SpendChart days={labels} series={series} />
        </Suspense>
      </section>
      <div className="table-box">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">{title}</th>
              <th scope="col" className="end">Runs</th>
              <th scope="col" className="end">Spent</th>
            </tr>
          </thead>
          <tbody>
            {sums.map(([name, { amount, runs }]) => (
              <tr key={name}>
                <td>{name}</td>
                <td className="end">{runs.toLocaleString("en-US")}</td>
                <td className="end">{dollars(dollarsOf(amount))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function nameOf(row: Row, by: By): string {
  switch (by) {
    case "model":
      return row.model ?? "unknown";
    case "workspace":
      return row.workspace ?? "unknown";
    case "key":
      return row.key ? row.key.label || row.key.hint : "console and tokens";
    case "label":
      return row.label ? (row.label.value ?? "other values") : "without this label";
  }
}

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
