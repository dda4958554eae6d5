import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Pause, Play, Rocket, Trash2 } from "lucide-react";
import { useState } from "react";
import { useLocation } from "wouter";
import { api, documentOf } from "../api/client";
import { useMe } from "../api/session";
import { BackLink, Button, CopyButton, Empty, Fact, Facts, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { packsOf } from "../deployments/packs";
import { dateTime } from "../format";

const LIVE_SECONDS = 3;

export function DeploymentPage({ params }: { params: { id: string } }) {
  const { mayRun } = useMe();
  const { tell, tellFault } = useToasts();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [asked, setAsked] = useState<"release" | "pool" | "delete" | null>(null);
  const path = { params: { path: { deployment_id: params.id } } };
  const deployment = useQuery({
    queryKey: ["deployment", params.id],
    queryFn: () => documentOf(api.GET("/api/v2/deployments/{deployment_id}", path)),
    refetchInterval: LIVE_SECONDS * 1000,
  });
  const again = () => queries.invalidateQueries({ queryKey: ["deployment", params.id] });
  const stop = () => void api.POST("/api/v2/deployments/{deployment_id}/stop", path).then(() => tell("The deployment takes no more jobs."), tellFault).finally(again);
  const start = () => void api.POST("/api/v2/deployments/{deployment_id}/start", path).then(() => tell("The deployment is starting."), tellFault).finally(again);
  const found = deployment.data;
  return (
    <>
      <BackLink href="/deployments">All deployments</BackLink>
      <PageHead
        title={found?.name ?? "Deployment"}
        actions={
          found && (
            <>
              <StateTag state={found.status} />
              {mayRun && (
                <>
                  {found.status === "stopped" ? <Button icon={Play} onClick={start}>Start</Button> : <Button icon={Pause} onClick={stop}>Stop</Button>}
                  <Button look="primary" icon={Rocket} onClick={() => setAsked("release")}>Publish a release</Button>
                  <Button look="danger" icon={Trash2} aria-label="Delete the deployment" title="Delete" onClick={() => setAsked("delete")} />
                </>
              )}
            </>
          )
        }
      >
        <code>{params.id}</code>
      </PageHead>
      <Loaded query={deployment}>
        {(one) => (
          <div className="stack wide">
            {one.reason && <p className={`notice ${one.status === "ready" ? "warn" : "bad"}`}>{one.reason}</p>}
            <section className="card">
              <h2>Details</h2>
              <Facts>
                <Fact name="Address"><span className="row"><code>{one.address}</code> <CopyButton text={one.address} /></span></Fact>
                <Fact name="Jobs are sent to"><code>{one.urls.jobs}</code></Fact>
                <Fact name="Serving release">{one.release_version ?? "none yet"}</Fact>
                <Fact name="Pool">
                  <span className="row">
                    {one.pool === null ? "as the rules of the installation say" : <code>{one.pool}</code>}
                    {mayRun && <Button onClick={() => setAsked("pool")}>Change the pool</Button>}
                  </span>
                </Fact>
                <Fact name="Accepted credentials">{one.credential_kinds.map((kind) => kind.replace("_", " ")).join(", ")}</Fact>
                <Fact name="Created">{dateTime(one.created_at)}</Fact>
                <Fact name="Changed">{dateTime(one.updated_at)}</Fact>
              </Facts>
            </section>
            <Releases id={params.id} serving={one.release_version} />
          </div>
        )}
      </Loaded>
      {asked === "release" && <NewRelease id={params.id} onClose={() => setAsked(null)} onDone={again} />}
      {asked === "pool" && <PoolForm id={params.id} pool={found?.pool ?? null} onClose={() => setAsked(null)} onDone={again} />}
      {asked === "delete" && (
        <FormDialog title={`Delete ${found?.name}?`} action="Delete" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/v2/deployments/{deployment_id}", path);
            tell("The deployment was deleted.");
            queries.removeQueries({ queryKey: ["deployment", params.id] });
            navigate("/deployments", { replace: true });
          }}>
          {() => <p>Its waiting jobs fail, and its running jobs are stopped. You cannot undo this.</p>}
        </FormDialog>
      )}
    </>
  );
}

function Releases({ id, serving }: { id: string; serving: number | null }) {
  const releases = useQuery({
    queryKey: ["deployment", id, "releases"],
    queryFn: () => documentOf(api.GET("/api/v2/deployments/{deployment_id}/releases", { params: { path: { deployment_id: id } } })),
    refetchInterval: LIVE_SECONDS * 1000,
  });
  return (
    <section className="stack" aria-label="Releases">
      <h2>Releases</h2>
      <Loaded query={releases}>
        {({ releases: found }) =>
          found.length === 0 ? (
            <Empty action={<Button onClick={() => void releases.refetch()}>Refresh</Button>}>There is no release yet.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Version</th>
                    <th scope="col">State</th>
                    <th scope="col">Node packs</th>
                    <th scope="col" className="end">Node classes</th>
                    <th scope="col">Published</th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.version}>
                      <td data-label="Version">
                        <span><strong>{one.version}</strong> {one.version === serving && <span className="tag accent">serving</span>}</span>
                      </td>
                      <td data-label="State">
                        <span><StateTag state={one.status} /> {one.reason && <span className="small soft">{one.reason}</span>}</span>
                      </td>
                      <td data-label="Node packs">{one.node_packs === null ? "all" : one.node_packs.join(", ") || "none"}</td>
                      <td data-label="Node classes" className="end">{one.nodes ?? "–"}</td>
                      <td data-label="Published">{dateTime(one.created_at)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </section>
  );
}

function NewRelease({ id, onClose, onDone }: { id: string; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [packs, setPacks] = useState("");
  return (
    <FormDialog title="Publish a release" action="Publish" onClose={onClose} fields={["node_packs"]}
      onSubmit={async () => {
        await api.POST("/api/v2/deployments/{deployment_id}/releases", { params: { path: { deployment_id: id } }, body: { node_packs: packsOf(packs) } });
        await onDone();
      }}>
      {(faults) => (
        <Field label="Node packs (optional)" hint="Names of packs, separated by commas. Without any, every pack of the server is used. The current release serves until this one is prepared." fault={faults.node_packs}>
          {(control) => <input {...control} {...textInput({ value: packs, onChange: setPacks })} autoComplete="off" />}
        </Field>
      )}
    </FormDialog>
  );
}

function PoolForm({ id, pool, onClose, onDone }: { id: string; pool: string | null; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState(pool ?? "");
  return (
    <FormDialog title="Change the pool" action="Save" onClose={onClose} fields={["pool"]}
      onSubmit={async () => {
        await api.PATCH("/api/v2/deployments/{deployment_id}", { params: { path: { deployment_id: id } }, body: { pool: name.trim() || null } });
        await onDone();
      }}>
      {(faults) => (
        <Field label="Pool (optional)" hint="The servers and workers that run the jobs sent from now on. Without a name, the rules of the installation decide." fault={faults.pool}>
          {(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="off" />}
        </Field>
      )}
    </FormDialog>
  );
}
