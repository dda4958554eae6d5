import { Activity } from "lucide-react";
import { useDeferredValue, useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { textInput } from "../components/form-dialog";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime, dollars, duration } from "../format";

export type Run = components["schemas"]["RunShown"];

const STATES = ["parked", "released", "dispatched", "accepted", "succeeded", "failed", "lost"] as const;
const FILTERS = ["state", "model", "provider"] as const;
const LIVE_SECONDS = 3;

const COLUMNS: Column<Run>[] = [
  { title: "Model", width: "minmax(130px, 2.2fr)", cell: (run) => <Link href={`/runs/${run.id}`}>{run.model}</Link> },
  { title: "State", width: "minmax(96px, 1fr)", cell: (run) => <StateTag state={run.state} /> },
  { title: "Provider", width: "minmax(80px, 0.9fr)", isWideOnly: true, cell: (run) => run.provider },
  { title: "Key", width: "minmax(80px, 1fr)", isWideOnly: true, cell: (run) => run.key?.label || run.key?.hint || "in the console" },
  { title: "Began", width: "minmax(92px, 1fr)", cell: (run) => <time dateTime={run.created_at} title={dateTime(run.created_at)}>{ago(run.created_at)}</time> },
  { title: "Took", width: "84px", isEnd: true, isWideOnly: true, cell: (run) => (run.finished_at ? duration(Date.parse(run.finished_at) - Date.parse(run.created_at)) : "–") },
  { title: "Charge", width: "minmax(84px, 0.8fr)", isEnd: true, isWideOnly: true, cell: (run) => (run.charge === null ? <span className="soft">{dollars(run.hold)} held</span> : dollars(run.charge)) },
];

export function Runs() {
  const { workspace } = useMe();
  const [search, setSearch] = useSearchParams();
  const text = useDeferredValue(search.toString());
  const list = usePages(
    ["runs", workspace, text],
    (cursor) => documentOf(api.GET("/api/admin/v1/runs", { params: { query: { workspace, ...filtersOf(text), cursor, limit: 200 } } })),
    LIVE_SECONDS,
  );
  const rows = useMemo(() => [...new Map(list.rows.map((run) => [run.id, run])).values()], [list.rows]);
  const change = (name: string, value: string) =>
    setSearch((before) => {
      if (value) {
        before.set(name, value);
      } else {
        before.delete(name);
      }
      return before;
    }, { replace: true });
  const isFiltered = [...search.keys()].length > 0;
  return (
    <>
      <PageHead title="Runs">Every run of a model in this workspace, the newest first: how it stands, and what it was charged.</PageHead>
      <div className="toolbar">
        <Field label="State">
          {(control) => (
            <select {...control} className="input" value={search.get("state") ?? ""} onChange={(event) => change("state", event.target.value)}>
              <option value="">All</option>
              {STATES.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Model">
          {(control) => <input {...control} {...textInput({ value: search.get("model") ?? "", onChange: (value) => change("model", value) })} placeholder="provider/model" />}
        </Field>
        <Field label="Provider">
          {(control) => <input {...control} {...textInput({ value: search.get("provider") ?? "", onChange: (value) => change("provider", value) })} />}
        </Field>
      </div>
      <Loaded query={list.query}>
        {() =>
          rows.length === 0 ? (
            <Empty
              icon={Activity}
              action={
                isFiltered ? (
                  <Button onClick={() => setSearch(new URLSearchParams(), { replace: true })}>Show all runs</Button>
                ) : (
                  <Link className="button primary" href="/explore">
                    Run a model
                  </Link>
                )
              }
            >
              {isFiltered ? "No run fits these filters." : "No model was run in this workspace yet."}
            </Empty>
          ) : (
            <VirtualList label="Runs" rows={rows} columns={COLUMNS} idOf={(run) => run.id} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          )
        }
      </Loaded>
    </>
  );
}

function filtersOf(text: string): Record<string, string> {
  const search = new URLSearchParams(text);
  return Object.fromEntries(FILTERS.map((name) => [name, search.get(name) ?? ""]).filter(([, value]) => value));
}
