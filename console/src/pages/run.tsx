import { useMutation, useQuery } from "@tanstack/react-query";
import {
  Ban, CircleCheck, CircleDot, CircleX, CornerDownRight, FilterX, HandCoins, Hourglass, Lock, LockOpen, LogIn, MessageSquareWarning, RefreshCw, Repeat, Scale, Send, Square, Undo2, Webhook,
  type LucideIcon,
} from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { api, documentOf, send } from "../api/client";
import { Fault } from "../api/faults";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { BackLink, Button, CopyButton, Empty, Fact, Facts, Figure, Loaded, Loading, PageHead, StateTag } from "../components/basics";
import { useToasts } from "../components/toasts";
import { dateTime, dollars, duration, shortTime, words } from "../format";
import { ENTRIES, change } from "../money/amounts";
import { readResult, resultOf } from "../results/extract";
import { MediaView } from "../results/media-view";
import { ResultView } from "../results/result-view";
import { RefundForm } from "../money/refund-form";
import { RerateForm } from "../money/rerate-form";
import "../styles/run.css";

type Detail = components["schemas"]["RunDetailShown"];
type TimelineEntry = components["schemas"]["TimelineEntryShown"];

export function RunPage({ params }: { params: { id: string } }) {
  const { mayRun, isOperator } = useMe();
  const [isRefunding, setRefunding] = useState(false);
  const [isRerating, setRerating] = useState(false);
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
      <BackLink href="/runs">All runs</BackLink>
      <PageHead
        title={run.data?.model ?? "Run"}
        actions={
          <>
            {run.data && <StateTag state={run.data.state} />}
            {run.data && <Link className="button" href={`/models/${run.data.model}`}>Open the model</Link>}
            {isRefundable(run.data) && isOperator && (
              <Button icon={Undo2} onClick={() => setRefunding(true)}>
                Refund
              </Button>
            )}
            {run.data?.state === "succeeded" && !run.data.is_byok && isOperator && (
              <Button icon={Scale} onClick={() => setRerating(true)}>
                Re-rate
              </Button>
            )}
            {isLive && run.data?.is_queued && mayRun && (
              <Button look="danger" icon={Square} isBusy={cancel.isPending} onClick={() => cancel.mutate()}>
                Cancel
              </Button>
            )}
          </>
        }
      >
        <code>{params.id}</code>
      </PageHead>
      {isRefunding && run.data && <RefundForm run={run.data} onClose={() => setRefunding(false)} onDone={() => run.refetch()} />}
      {isRerating && run.data && <RerateForm run={run.data} onClose={() => setRerating(false)} onDone={() => run.refetch()} />}
      <Loaded query={run}>{(found) => <RunInFull run={found} />}</Loaded>
    </>
  );
}

/** A run is refunded once, and only where something was charged. */
function isRefundable(run: Detail | undefined): boolean {
  return run !== undefined && Number(run.charge ?? 0) > 0 && !run.ledger.some((one) => one.kind === "refund");
}

function RunInFull({ run }: { run: Detail }) {
  const took = run.finished_at ? duration(Date.parse(run.finished_at) - Date.parse(run.created_at)) : "running";
  return (
    <div className="stack wide">
      {run.finished_at === null && <progress aria-label="The run is under way" />}
      {run.reason && run.state !== "succeeded" && (
        <p className="notice bad">
          {words(run.reason)}
          {run.upstream_status && run.upstream_status >= 400 ? `: the provider answered with status ${run.upstream_status}.` : "."}
        </p>
      )}
      <div className="figures">
        <Figure label="Charged" value={run.charge === null ? "not yet" : dollars(run.charge)} />
        <Figure label="Held" value={dollars(run.hold)} />
        <Figure label="Took" value={took} />
        <Figure label="Attempts" value={run.attempt} />
      </div>
      <div className="run-parts">
        <section className="card">
          <h2>Timeline</h2>
          <Timeline entries={run.timeline} />
        </section>
        <section className="card">
          <h2>Details</h2>
          <Facts>
            <Fact name="Provider">{run.provider}{run.is_redirected && " (after a fallback)"}</Fact>
            <Fact name="Workspace">{run.workspace}</Fact>
            <Fact name="Credential">{run.key ? `${run.key.label || "API key"} (${run.key.hint})` : "a session or a token"}</Fact>
            <Fact name="Mode">{modeOf(run)}</Fact>
            {Object.keys(run.labels).length > 0 && <Fact name="Labels">{Object.entries(run.labels).map(([name, value]) => `${name}=${value}`).join(", ")}</Fact>}
            {run.operation && <Fact name="Operation">{run.operation}</Fact>}
            <Fact name="Started">{dateTime(run.created_at)}</Fact>
            <Fact name="Finished">{dateTime(run.finished_at)}</Fact>
            {run.upstream_status !== null && <Fact name="Provider status">{run.upstream_status}</Fact>}
            {run.dropped.length > 0 && <Fact name="Dropped fields">{run.dropped.join("; ")}</Fact>}
            {run.cancel_requested_at && <Fact name="Cancel requested">{dateTime(run.cancel_requested_at)}</Fact>}
            <Fact name="Prices">{run.rate_version}</Fact>
          </Facts>
        </section>
      </div>
      {run.state === "succeeded" && <Outcome run={run} />}
      {run.webhook && <Webhooks webhook={run.webhook} />}
      {run.ledger.length > 0 && (
        <section className="card">
          <h2>Ledger entries</h2>
          <div className="table-box">
            <table className="table cards">
              <thead>
                <tr>
                  <th scope="col">Time</th>
                  <th scope="col">Entry</th>
                  <th scope="col" className="end">Balance</th>
                  <th scope="col" className="end">Held</th>
                </tr>
              </thead>
              <tbody>
                {run.ledger.map((one, at) => (
                  <tr key={at}>
                    <td data-label="Time">{dateTime(one.at)}</td>
                    <td data-label="Entry"><span>{ENTRIES[one.kind] ?? one.kind}{one.reason && <span className="soft"> {one.reason}</span>}</span></td>
                    <td data-label="Balance" className="end">{change(one.balance_change)}</td>
                    <td data-label="Held" className="end">{change(one.held_change)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
    </div>
  );
}

/** Where the end of a run was sent to, and how each try went. */
function Webhooks({ webhook }: { webhook: NonNullable<Detail["webhook"]> }) {
  const state = webhook.delivered_at ? "delivered" : webhook.gave_up_at ? "failed" : "pending";
  return (
    <section className="card stack" aria-label="Webhook">
      <div className="row spread">
        <h2>Webhook</h2>
        <StateTag state={state} />
      </div>
      <p className="small soft"><code>{webhook.url}</code>{webhook.next_at && `, next try ${dateTime(webhook.next_at)}`}</p>
      {webhook.tries.length > 0 && (
        <div className="table-box">
          <table className="table cards">
            <thead>
              <tr>
                <th scope="col">Try</th>
                <th scope="col">Time</th>
                <th scope="col">Answer</th>
                <th scope="col" className="end">Took</th>
              </tr>
            </thead>
            <tbody>
              {webhook.tries.map((one) => (
                <tr key={one.number}>
                  <td data-label="Try">{one.number}</td>
                  <td data-label="Time">{dateTime(one.at)}</td>
                  <td data-label="Answer">{one.status ?? one.error ?? "none"}</td>
                  <td data-label="Took" className="end">{duration(one.milliseconds)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function modeOf(run: Detail): string {
  const modes = [run.is_queued ? "queued" : "synchronous"];
  if (run.is_strict) {
    modes.push("strict");
  }
  if (run.is_byok) {
    modes.push("with the workspace's own key");
  }
  return modes.join(", ");
}

const ICONS: Record<string, LucideIcon> = {
  admitted: LogIn,
  hold: Lock,
  "hold raised": Lock,
  "hold not raised": Lock,
  "hold released": LockOpen,
  "fields dropped": FilterX,
  claimed: CircleDot,
  "taken over": RefreshCw,
  "call repeated": Repeat,
  postponed: Hourglass,
  "provider said": MessageSquareWarning,
  "provider told the operator": MessageSquareWarning,
  polled: RefreshCw,
  replayed: Repeat,
  "work asked about again": RefreshCw,
  "cancel requested": Ban,
  fallback: CornerDownRight,
  charge: HandCoins,
  refund: Undo2,
  "re-rate": Scale,
  webhook: Webhook,
  succeeded: CircleCheck,
  failed: CircleX,
  lost: CircleX,
};
const TONES: Record<string, string> = { succeeded: "good", charge: "good", failed: "bad", lost: "bad", fallback: "warn", "hold not raised": "warn", "call repeated": "warn", postponed: "warn", "provider said": "bad", "provider told the operator": "bad", "fields dropped": "warn", "taken over": "warn" };

/** Everything that happened to a run, in order, each with the time since it was admitted. */
function Timeline({ entries }: { entries: readonly TimelineEntry[] }) {
  const start = entries[0] ? Date.parse(entries[0].at) : 0;
  return (
    <ol className="timeline">
      {entries.map((one, at) => {
        const Icon = ICONS[one.kind] ?? Send;
        return (
          <li key={at}>
            <span className={`mark ${TONES[one.kind] ?? ""}`}>
              <Icon size={14} aria-hidden="true" />
            </span>
            <div>
              <div className="row spread">
                <strong>
                  {words(one.kind)}
                  {one.attempt !== null && one.attempt > 1 && <span className="soft small"> attempt {one.attempt}</span>}
                </strong>
                <time className="soft small number" dateTime={one.at} title={dateTime(one.at)}>
                  {at === 0 ? shortTime(one.at) : `+${duration(Date.parse(one.at) - start)}`}
                </time>
              </div>
              {one.detail && <p className="small soft">{one.detail}</p>}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

/** The result of a run, for as long as the server keeps it. */
function Outcome({ run }: { run: Detail }) {
  const result = useQuery({
    queryKey: ["result", run.id],
    queryFn: async () => {
      try {
        return await readResult(await send(`/api/admin/v1/runs/${run.id}/result`), null);
      } catch (error) {
        if (error instanceof Fault && error.status === 404) {
          return null;
        }
        throw error;
      }
    },
    retry: false,
    staleTime: Infinity,
  });
  const linked = resultOf(run.outputs, null).media;
  return (
    <section className="card" aria-label="Result">
      <h2>Result</h2>
      {result.isPending ? (
        <Loading>Fetching the result…</Loading>
      ) : result.data ? (
        <ResultView entry={{ ...result.data, body: {}, model: run.model }} />
      ) : linked.length > 0 ? (
        <div className="outputs">
          {linked.map((one, at) => (
            <MediaView key={at} media={one} label={`Output ${at + 1} of ${run.model}`} />
          ))}
        </div>
      ) : (
        <Empty action={<CopyButton text={run.id} label="Copy the run's id" />}>
          The server keeps results of queued runs and of calls with an idempotency key, for a limited time. It keeps none of this run.
        </Empty>
      )}
    </section>
  );
}
