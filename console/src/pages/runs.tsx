import { useQuery } from "@tanstack/react-query";
import { Activity } from "lucide-react";
import { useMemo } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { Period, useFilters } from "../components/filters";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime, dollars, duration, words } from "../format";

export type Run = components["schemas"]["RunShown"];

const STATES = ["parked", "released", "dispatched", "accepted", "succeeded", "failed", "lost"] as const;
const FILTERS = ["state", "model", "provider", "key", "from", "to"] as const;
const LIVE_SECONDS = 3;

const COLUMNS: readonly Column<Run>[] = [
  { title: "Model", width: "minmax(130px, 2.2fr)", cell: (run) => <Link href={`/runs/${run.id}`}>{run.model}</Link> },
  { title: "State", width: "minmax(96px, 1fr)", cell: (run) => <StateTag state={run.state} /> },
  { title: "Provider", width: "minmax(80px, 0.9fr)", isWideOnly: true, cell: (run) => run.provider },
  { title: "Key", width: "minmax(80px, 1fr)", isWideOnly: true, cell: (run) => run.key?.label || run.key?.hint || "console" },
  { title: "Started", width: "minmax(92px, 1fr)", cell: (run) => <time dateTime={run.created_at} title={dateTime(run.created_at)}>{ago(run.created_at)}</time> },
  { title: "Took", width: "84px", isEnd: true, isWideOnly: true, cell: (run) => (run.finished_at ? duration(Date.parse(run.finished_at) - Date.parse(run.created_at)) : "–") },
  { title: "Charge", width: "minmax(110px, 0.9fr)", isEnd: true, isWideOnly: true, cell: (run) => (run.charge === null ? <span className="soft">{dollars(run.hold)} held</span> : dollars(run.charge)) },
];
const OF_ALL: readonly Column<Run>[] = [...COLUMNS.slice(0, 2), { title: "Workspace", width: "minmax(80px, 0.9fr)", isWideOnly: true, cell: (run) => run.workspace }, ...COLUMNS.slice(2)];

export function Runs() {
  const { workspace, isOperator } = useMe();
  const filters = useFilters(FILTERS);
  const isWhole = isOperator && filters.valueOf("all") === "1";
  const list = usePages(
    ["runs", isWhole ? "" : workspace, filters.sent],
    (cursor) => documentOf(api.GET("/api/admin/v1/runs", { params: { query: { workspace: isWhole ? undefined : workspace, ...filters.sent, cursor, limit: 200 } } })),
    LIVE_SECONDS,
  );
  const rows = useMemo(() => [...new Map(list.rows.map((run) => [run.id, run])).values()], [list.rows]);
  const keys = useQuery({
    queryKey: ["keys-named", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/keys", { params: { path: { workspace }, query: { limit: 200 } } })),
    staleTime: 30_000,
  });
  return (
    <>
      <PageHead title="Runs">Every run of a model, the newest first. Open one to see what happened to it.</PageHead>
      <div className="toolbar">
        <Field label="State">
          {(control) => (
            <select {...control} className="input" value={filters.valueOf("state")} onChange={(event) => filters.set("state", event.target.value)}>
              <option value="">All states</option>
              {STATES.map((one) => (
                <option key={one} value={one}>{words(one)}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Model">
          {(control) => <input {...control} className="input" placeholder="provider/model" value={filters.valueOf("model")} onChange={(event) => filters.set("model", event.target.value)} />}
        </Field>
        <Field label="Provider">
          {(control) => <input {...control} className="input" placeholder="Any" value={filters.valueOf("provider")} onChange={(event) => filters.set("provider", event.target.value)} />}
        </Field>
        {!isWhole && (
          <Field label="Key">
            {(control) => (
              <select {...control} className="input" value={filters.valueOf("key")} onChange={(event) => filters.set("key", event.target.value)}>
                <option value="">All keys</option>
                {keys.data?.items.map((one) => (
                  <option key={one.id} value={one.id}>{one.label || one.hint}</option>
                ))}
              </select>
            )}
          </Field>
        )}
        <Period filters={filters} />
        {isOperator && (
          <label className="check">
            <input type="checkbox" checked={isWhole} onChange={(event) => filters.set("all", event.target.checked ? "1" : "")} /> All workspaces
          </label>
        )}
      </div>
      <Loaded query={list.query}>
        {() =>
          rows.length === 0 && !list.hasMore ? (
            <Empty
              icon={Activity}
              action={
                filters.isFiltered ? (
                  <Button onClick={filters.clear}>Show all runs</Button>
                ) : (
                  <Link className="button primary" href="/explore">
                    Run a model
                  </Link>
                )
              }
            >
              {filters.isFiltered ? "No run matches these filters." : "No model has been run in this workspace yet."}
            </Empty>
          ) : (
            <VirtualList label="Runs" rows={rows} columns={isWhole ? OF_ALL : COLUMNS} idOf={(run) => run.id} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          )
        }
      </Loaded>
    </>
  );
}
