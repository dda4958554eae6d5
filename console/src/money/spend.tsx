import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Receipt } from "lucide-react";
import { Suspense, lazy, useMemo, useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Empty, Field, Loaded, Loading } from "../components/basics";
import { roundDollars, dollars } from "../format";

const SpendChart = lazy(() => import("./chart"));

type Row = components["schemas"]["UsageRow"];
type By = "model" | "key";

const RANGES = [7, 30, 90] as const;
const NAMED = 7;
const DAY_MILLISECONDS = 86_400_000;

/** What was spent on each day, by model or by key. */
export function Spend() {
  const { workspace } = useMe();
  const [days, setDays] = useState<number>(30);
  const [by, setBy] = useState<By>("model");
  const from = dayOf(Date.now() - (days - 1) * DAY_MILLISECONDS);
  const usage = useQuery({
    queryKey: ["usage", workspace, from, by],
    queryFn: () => documentOf(api.GET("/v2/usage", { params: { query: { from, group_by: `day,${by}` } } })),
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  return (
    <div className="stack">
      <div className="toolbar">
        <Field label="Days">
          {(control) => (
            <select {...control} className="input" value={days} onChange={(event) => setDays(Number(event.target.value))}>
              {RANGES.map((one) => (
                <option key={one} value={one}>
                  The last {one}
                </option>
              ))}
            </select>
          )}
        </Field>
        <div className="segments" role="group" aria-label="By">
          {(["model", "key"] as const).map((one) => (
            <button key={one} type="button" aria-pressed={by === one} onClick={() => setBy(one)}>
              By {one}
            </button>
          ))}
        </div>
      </div>
      <Loaded query={usage}>
        {({ data, total }) =>
          data.length === 0 ? (
            <Empty icon={Receipt} action={<Link className="button primary" href="/explore">Run a model</Link>}>
              Nothing was spent in these days.
            </Empty>
          ) : (
            <>
              <div className="figures">
                <Figure label="Spent" value={roundDollars(total.amount)} />
                <Figure label="Runs" value={total.runs.toLocaleString("en-US")} />
                <Figure label="Succeeded" value={total.succeeded.toLocaleString("en-US")} />
                <Figure label="Failed" value={total.failed.toLocaleString("en-US")} />
              </div>
              <Shown rows={data} by={by} from={from} days={days} />
            </>
          )
        }
      </Loaded>
    </div>
  );
}

export function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div className="figure">
      <div className="label">{label}</div>
      <div className="value">{value}</div>
    </div>
  );
}

function Shown({ rows, by, from, days }: { rows: Row[]; by: By; from: string; days: number }) {
  const sums = useMemo(() => {
    const found = new Map<string, { amount: number; runs: number }>();
    for (const row of rows) {
      const name = nameOf(row, by);
      const sum = found.get(name) ?? { amount: 0, runs: 0 };
      found.set(name, { amount: sum.amount + Number(row.amount), runs: sum.runs + row.runs });
    }
    return [...found].sort(([, one], [, other]) => other.amount - one.amount);
  }, [rows, by]);
  const { labels, series } = useMemo(() => {
    const all = Array.from({ length: days }, (_, at) => dayOf(Date.parse(from) + at * DAY_MILLISECONDS));
    const named = sums.slice(0, NAMED).map(([name]) => name);
    const values = new Map([...named, ...(sums.length > NAMED ? ["others"] : [])].map((name) => [name, all.map(() => 0)]));
    for (const row of rows) {
      const name = nameOf(row, by);
      const line = values.get(named.includes(name) ? name : "others");
      const at = all.indexOf(row.day ?? "");
      if (line && at >= 0) {
        line[at] = (line[at] ?? 0) + Number(row.amount);
      }
    }
    return { labels: all, series: [...values].map(([name, line]) => ({ name, values: line })) };
  }, [rows, by, from, days, sums]);
  return (
    <>
      <section className="card">
        <Suspense fallback={<Loading />}>
          <SpendChart days={labels} series={series} />
        </Suspense>
      </section>
      <div className="table-box">
        <table className="table">
          <thead>
            <tr>
              <th scope="col">{by === "model" ? "Model" : "Key"}</th>
              <th scope="col" className="end">Runs</th>
              <th scope="col" className="end">Spent</th>
            </tr>
          </thead>
          <tbody>
            {sums.map(([name, { amount, runs }]) => (
              <tr key={name}>
                <td>{name}</td>
                <td className="end">{runs.toLocaleString("en-US")}</td>
                <td className="end">{dollars(amount)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function nameOf(row: Row, by: By): string {
  return by === "model" ? (row.model ?? "?") : row.key ? row.key.label || row.key.hint || "a key" : "sessions and tokens";
}

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}
