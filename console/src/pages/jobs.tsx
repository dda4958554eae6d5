import { useInfiniteQuery } from "@tanstack/react-query";
import { ListChecks } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { type Column, VirtualList } from "../components/virtual-list";
import { ago, dateTime, duration } from "../format";
import { useMe } from "../api/session";

type Job = components["schemas"]["CloudJobListed"];

const PAGE = 200;
const STATUSES = ["pending", "in_progress", "completed", "failed", "cancelled"] as const;
const COLUMNS: Column<Job>[] = [
  { title: "Job", width: "minmax(110px, 2fr)", cell: (job) => <Link href={`/jobs/${job.id}`}>{job.id.slice(0, 8)}…{job.id.slice(-6)}</Link> },
  { title: "Status", width: "minmax(104px, 1fr)", cell: (job) => <StateTag state={job.status} /> },
  { title: "Submitted", width: "minmax(90px, 1.2fr)", cell: (job) => <span title={dateTime(job.create_time)}>{ago(job.create_time)}</span> },
  { title: "Took", width: "90px", isEnd: true, isWideOnly: true, cell: (job) => (job.execution_start_time && job.execution_end_time ? duration(job.execution_end_time - job.execution_start_time) : "–") },
  { title: "Outputs", width: "80px", isEnd: true, isWideOnly: true, cell: (job) => job.outputs_count },
];

export function Jobs() {
  const { workspace } = useMe();
  const [status, setStatus] = useState("");
  const jobs = useInfiniteQuery({
    queryKey: ["jobs", workspace, status],
    queryFn: ({ pageParam }) => documentOf(api.GET("/api/jobs", { params: { query: { limit: PAGE, offset: pageParam, status: status || undefined } } })),
    initialPageParam: 0,
    getNextPageParam: ({ pagination }) => (pagination.has_more ? pagination.offset + pagination.limit : undefined),
    refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) <= 1 ? 3000 : false),
  });
  const rows = useMemo(() => unique(jobs.data?.pages.flatMap((page) => page.jobs) ?? []), [jobs.data]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = jobs;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) {
      void fetchNextPage();
    }
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return (
    <>
      <PageHead title="Jobs">Workflows that wait, are executed, or have ended. They are kept for a week.</PageHead>
      <div className="toolbar">
        <Field label="Status">
          {(control) => (
            <select {...control} className="input" value={status} onChange={(event) => setStatus(event.target.value)}>
              <option value="">All</option>
              {STATUSES.map((one) => (
                <option key={one} value={one}>
                  {one.replace("_", " ")}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <Loaded query={jobs}>
        {() =>
          rows.length === 0 ? (
            <Empty icon={ListChecks} action={<Link className="button" href="/workflows">Run a workflow</Link>}>
              {status ? "No job has this status." : "No workflow was run in this workspace yet."}
            </Empty>
          ) : (
            <VirtualList label="Jobs" rows={rows} columns={COLUMNS} idOf={(job) => job.id} onEnd={more} isLoadingMore={isFetchingNextPage} />
          )
        }
      </Loaded>
    </>
  );
}

/** Pages by offset overlap where jobs were submitted in between. */
function unique(jobs: Job[]): Job[] {
  return [...new Map(jobs.map((job) => [job.id, job])).values()];
}
