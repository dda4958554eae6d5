import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Rocket } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { packsOf } from "../deployments/packs";
import { ago, dateTime } from "../format";

const LIVE_SECONDS = 5;

export function Deployments() {
  const { workspace, mayRun } = useMe();
  const queries = useQueryClient();
  const [isAsked, setAsked] = useState(false);
  const list = useQuery({
    queryKey: ["deployments", workspace],
    queryFn: () => documentOf(api.GET("/api/v2/deployments")),
    refetchInterval: LIVE_SECONDS * 1000,
  });
  const make = mayRun && (
    <Button look="primary" icon={Plus} onClick={() => setAsked(true)}>
      Create a deployment
    </Button>
  );
  return (
    <>
      <PageHead title="Deployments" actions={(list.data?.deployments.length ?? 0) > 0 && make}>
        Addresses of their own for workflows, each with the node packs that execute them.
      </PageHead>
      <Loaded query={list}>
        {({ deployments }) =>
          deployments.length === 0 ? (
            <Empty icon={Rocket} action={make || <Button onClick={() => void list.refetch()}>Refresh</Button>}>
              This workspace has no deployment yet. A deployment fixes the node packs that your jobs run with, and releases new ones without a gap.
            </Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col">State</th>
                    <th scope="col" className="end">Serving release</th>
                    <th scope="col" className="end">Latest release</th>
                    <th scope="col">Changed</th>
                  </tr>
                </thead>
                <tbody>
                  {deployments.map((one) => (
                    <tr key={one.id}>
                      <td data-label="Name">
                        <span><Link href={`/deployments/${one.id}`}><strong>{one.name}</strong></Link> <span className="soft small">{one.id}</span></span>
                      </td>
                      <td data-label="State"><StateTag state={one.status} /></td>
                      <td data-label="Serving release" className="end">{one.release_version ?? "none"}</td>
                      <td data-label="Latest release" className="end">{one.latest_release_version}</td>
                      <td data-label="Changed"><time dateTime={one.updated_at} title={dateTime(one.updated_at)}>{ago(one.updated_at)}</time></td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {isAsked && <NewDeployment onClose={() => setAsked(false)} onDone={() => queries.invalidateQueries({ queryKey: ["deployments"] })} />}
    </>
  );
}

function NewDeployment({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState("");
  const [packs, setPacks] = useState("");
  const [pool, setPool] = useState("");
  return (
    <FormDialog title="Create a deployment" action="Create it" onClose={onClose} fields={["name", "node_packs", "pool"]}
      onSubmit={async () => {
        await api.POST("/api/v2/deployments", { body: { name, node_packs: packsOf(packs), credential_kinds: null, pool: pool.trim() || null } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Name" hint="Small letters, digits and hyphens." fault={faults.name}>{(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="off" />}</Field>
          <Field label="Node packs (optional)" hint="Names of packs, separated by commas. Without any, every pack of the server is used." fault={faults.node_packs}>
            {(control) => <input {...control} {...textInput({ value: packs, onChange: setPacks })} autoComplete="off" />}
          </Field>
          <Field label="Pool (optional)" hint="The servers and workers that run its jobs. Without a name, the rules of the installation decide." fault={faults.pool}>
            {(control) => <input {...control} {...textInput({ value: pool, onChange: setPool })} autoComplete="off" />}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
