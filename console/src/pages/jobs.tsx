import { useQuery } from "@tanstack/react-query";
import { ListChecks } from "lucide-react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { ENDED, labelsOf } from "../api/jobs";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { useFilters } from "../components/filters";
import { textInput } from "../components/form-dialog";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime, duration, words } from "../format";

type Job = components["schemas"]["AdminJobShown"];

const STATES = ["parked", "released", "running", "canceling", "succeeded", "failed", "canceled", "expired"] as const;
const FILTERS = ["state", "deployment", "label"] as const;
const LIVE_SECONDS = 3;
const COLUMNS: readonly Column<Job>[] = [
  { title: "Job", width: "minmax(130px, 1.6fr)", cell: (job) => <Link href={`/jobs/${job.id}`}>{job.id.slice(0, 8)}…{job.id.slice(-6)}</Link> },
  { title: "State", width: "minmax(92px, 1fr)", cell: (job) => <StateTag state={job.state} /> },
  { title: "Labels", width: "minmax(100px, 1.6fr)", isWideOnly: true, cell: (job) => <span title={labelsOf(job)}>{labelsOf(job) || "–"}</span> },
  { title: "Release", width: "84px", isEnd: true, isWideOnly: true, cell: (job) => job.release ?? "–" },
  { title: "Submitted", width: "minmax(84px, 1fr)", cell: (job) => <time dateTime={job.created_at} title={dateTime(job.created_at)}>{ago(job.created_at)}</time> },
  { title: "Ended after", width: "104px", isEnd: true, isWideOnly: true, cell: (job) => (ENDED.has(job.state) ? duration(Date.parse(job.updated_at) - Date.parse(job.created_at)) : "–") },
];

export function Jobs() {
  const { workspace } = useMe();
  const filters = useFilters(FILTERS);
  const { label, ...others } = filters.sent;
  const sent = { ...others, ...(label?.includes("=", 1) && { label }) }; // a label is sent once it is whole
  const list = usePages(["jobs", workspace, sent], (cursor) => documentOf(api.GET("/api/admin/v1/jobs", { params: { query: { workspace, ...sent, cursor, limit: 200 } } })), LIVE_SECONDS);
  const deployments = useQuery({
    queryKey: ["deployments-named", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/deployments", { params: { path: { workspace } } })),
    staleTime: 30_000,
  });
  return (
    <>
      <PageHead title="Jobs">Every workflow that was run here, the newest first. Open one to see its nodes, outputs and events.</PageHead>
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
        <Field label="Deployment">
          {(control) => (
            <select {...control} className="input" value={filters.valueOf("deployment")} onChange={(event) => filters.set("deployment", event.target.value)}>
              <option value="">Any or none</option>
              {deployments.data?.items.map((one) => (
                <option key={one.id} value={one.id}>{one.name}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Label">
          {(control) => <input {...control} {...textInput({ value: filters.valueOf("label"), onChange: (value) => filters.set("label", value) })} placeholder="key=value" />}
        </Field>
      </div>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 && !list.hasMore ? (
            <Empty icon={ListChecks} action={filters.isFiltered ? <Button onClick={filters.clear}>Show all jobs</Button> : <Link className="button" href="/workflows">Run a workflow</Link>}>
              {filters.isFiltered ? "No job matches these filters." : "No workflow has been run in this workspace yet."}
            </Empty>
          ) : (
            <VirtualList label="Jobs" rows={list.rows} columns={COLUMNS} idOf={(job) => job.id} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
          )
        }
      </Loaded>
    </>
  );
}
