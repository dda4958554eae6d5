import { useQuery } from "@tanstack/react-query";
import { api, documentOf } from "../api/client";
import { ENDED, labelsOf } from "../api/jobs";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { BackLink, Fact, Facts, Loaded, PageHead } from "../components/basics";
import { dateTime, duration, words } from "../format";
import { JobView } from "../workflows/job-view";

type Job = components["schemas"]["JobInFull"];
type JobEvent = Job["events"][number];

export function JobPage({ params }: { params: { id: string } }) {
  const { workspace } = useMe();
  const job = useQuery({
    queryKey: ["job", params.id, "in full"],
    queryFn: () => documentOf(api.GET("/api/admin/v1/jobs/{job_id}", { params: { path: { job_id: params.id }, query: { workspace } } })),
    refetchInterval: ({ state }) => (state.data && ENDED.has(state.data.state) ? false : 2000),
  });
  return (
    <>
      <BackLink href="/jobs">All jobs</BackLink>
      <PageHead title={`Job ${params.id.slice(0, 8)}`}>
        <code>{params.id}</code>
      </PageHead>
      <div className="stack wide">
        <section className="card" aria-label="The job">
          <JobView id={params.id} />
        </section>
        <Loaded query={job}>{(found) => <JobInFull job={found} />}</Loaded>
      </div>
    </>
  );
}

function JobInFull({ job }: { job: Job }) {
  const labels = labelsOf(job);
  return (
    <>
      <section className="card">
        <h2>Details</h2>
        <Facts>
          <Fact name="State">{words(job.state)}</Fact>
          <Fact name="Submitted">{dateTime(job.created_at)}</Fact>
          <Fact name="Started">{dateTime(job.started_at)}</Fact>
          <Fact name="Finished">{dateTime(job.finished_at)}</Fact>
          <Fact name="Nodes">{job.nodes}</Fact>
          <Fact name="Attempt">{job.attempt}</Fact>
          {job.deployment && <Fact name="Deployment">{job.deployment}{job.release !== null && `, release ${job.release}`}</Fact>}
          {labels && <Fact name="Labels">{labels}</Fact>}
        </Facts>
      </section>
      {job.events.length > 0 && (
        <section className="card">
          <h2>Events</h2>
          <div className="table-box events">
            <table className="table">
              <thead>
                <tr>
                  <th scope="col">After</th>
                  <th scope="col">Event</th>
                  <th scope="col">Node</th>
                </tr>
              </thead>
              <tbody>
                {job.events.map((one) => (
                  <tr key={one.number}>
                    <td className="number" title={dateTime(one.at)}>{duration(Date.parse(one.at) - Date.parse(job.created_at))}</td>
                    <td>{words(one.kind)}</td>
                    <td>{nodeOf(one, job)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </>
  );
}

/** The node that an event is about, by its title in the workflow. */
function nodeOf({ data }: JobEvent, { workflow }: Job): string {
  const id = (data as Record<string, unknown>).node_id ?? (data as Record<string, unknown>).node;
  if (typeof id !== "string") {
    return "–";
  }
  const node = (workflow as Record<string, any> | null)?.[id] ?? (workflow as Record<string, any> | null)?.prompt?.[id];
  return node ? `${node._meta?.title ?? node.class_type} (${id})` : id;
}
