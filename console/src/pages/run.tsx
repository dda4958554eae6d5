import { useMutation, useQuery } from "@tanstack/react-query";
import { ArrowLeft, Square } from "lucide-react";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Loaded, PageHead, StateTag } from "../components/basics";
import { useToasts } from "../components/toasts";
import { dateTime, dollars, duration, words } from "../format";
import { resultOf } from "../results/extract";
import { MediaView } from "../results/media-view";
import "../styles/run.css";

type Detail = components["schemas"]["RunDetailShown"];

export function RunPage({ params }: { params: { id: string } }) {
  const { mayRun } = useMe();
  const { tell, tellFault } = useToasts();
  const run = useQuery({
    queryKey: ["run", params.id],
    queryFn: () => documentOf(api.GET("/api/admin/v1/runs/{run_id}", { params: { path: { run_id: params.id } } })),
    refetchInterval: ({ state }) => (state.data?.finished_at ? false : 1500),
  });
  const cancel = useMutation({
    mutationFn: () => documentOf(api.POST("/api/admin/v1/runs/{run_id}/cancel", { params: { path: { run_id: params.id } } })),
    onSuccess: () => {
      tell("The run was asked to stop.");
      void run.refetch();
    },
    onError: tellFault,
  });
  const isLive = run.data !== undefined && run.data.finished_at === null;
  return (
    <>
      <Link className="button quiet small" href="/runs">
        <ArrowLeft size={15} aria-hidden="true" /> All runs
      </Link>
      <PageHead
        title={run.data?.model ?? "Run"}
        actions={
          isLive && run.data?.is_queued && mayRun && (
            <Button look="danger" icon={Square} isBusy={cancel.isPending} onClick={() => cancel.mutate()}>
              Cancel
            </Button>
          )
        }
      >
        {params.id}
      </PageHead>
      <Loaded query={run}>{(found) => <Told run={found} />}</Loaded>
    </>
  );
}

function Told({ run }: { run: Detail }) {
  const media = resultOf(run.outputs, null).media;
  return (
    <div className="stack wide">
      {run.finished_at === null && <progress aria-label="The run is under way" />}
      {run.reason && (
        <p className="notice bad">
          {words(run.reason)}
          {run.upstream_status ? `: the provider answered with status ${run.upstream_status}.` : "."}
        </p>
      )}
      <div className="run-parts">
        <section className="card">
          <h2>Timeline</h2>
          <ol className="timeline">
            {run.timeline.map((one, at) => (
              <li key={at}>
                <time className="soft small number" dateTime={one.at} title={dateTime(one.at)}>
                  {at === 0 ? dateTime(one.at) : `+${duration(Date.parse(one.at) - Date.parse(run.timeline[0]!.at))}`}
                </time>
                <div>
                  <strong>{words(one.kind)}</strong>
                  {one.attempt !== null && one.attempt > 0 && <span className="soft small"> attempt {one.attempt}</span>}
                  {one.detail && <p className="small">{one.detail}</p>}
                </div>
              </li>
            ))}
          </ol>
        </section>
        <section className="card">
          <h2>What it is</h2>
          <dl className="facts">
            <Fact name="State"><StateTag state={run.state} /></Fact>
            <Fact name="Provider">{run.provider}{run.is_redirected && " (after a fallback)"}</Fact>
            <Fact name="Called with">{run.key ? `${run.key.label || "a key"} (${run.key.hint})` : "a session or a token"}</Fact>
            <Fact name="How">{run.is_queued ? "through the queue" : "at once"}{run.is_strict && ", in the provider's own form"}{run.is_byok && ", with a key of the workspace"}</Fact>
            {run.operation && <Fact name="Operation">{run.operation}</Fact>}
            {run.dropped.length > 0 && <Fact name="Dropped fields">{run.dropped.join("; ")}</Fact>}
            <Fact name="Held">{dollars(run.hold)}</Fact>
            <Fact name="Charged">{dollars(run.charge)}</Fact>
            <Fact name="Prices of">{run.rate_version}</Fact>
          </dl>
          <p className="row end"><Link className="button small" href={`/models/${run.model}`}>Open the model</Link></p>
        </section>
      </div>
      {run.ledger.length > 0 && (
        <section className="card">
          <h2>In the ledger</h2>
          <div className="table-box">
            <table className="table cards">
              <thead>
                <tr>
                  <th scope="col">When</th>
                  <th scope="col">Entry</th>
                  <th scope="col" className="end">Balance</th>
                  <th scope="col" className="end">Held</th>
                </tr>
              </thead>
              <tbody>
                {run.ledger.map((one, at) => (
                  <tr key={at}>
                    <td data-label="When">{dateTime(one.at)}</td>
                    <td data-label="Entry">{one.kind}{one.reason && <span className="soft"> {one.reason}</span>}</td>
                    <td data-label="Balance" className="end">{dollars(one.balance_change)}</td>
                    <td data-label="Held" className="end">{dollars(one.held_change)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {media.length > 0 && (
        <section className="card">
          <h2>What it made</h2>
          <div className="outputs">
            {media.map((one, at) => (
              <MediaView key={at} media={one} label={`Output ${at + 1} of ${run.model}`} />
            ))}
          </div>
        </section>
      )}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
