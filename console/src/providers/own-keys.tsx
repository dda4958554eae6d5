import { useQueryClient } from "@tanstack/react-query";
import { KeyRound, Trash2, type LucideIcon } from "lucide-react";
import { useMemo, useState } from "react";
import { api } from "../api/client";
import { makerOf, useCatalog, useProviderKeys } from "../api/models";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { date } from "../format";

/** The keys that the workspace itself has at providers, which bill such runs to it directly. */
export function OwnKeys({ icon }: { icon: LucideIcon }) {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "delete"; provider: string } | null>(null);
  const list = useProviderKeys(workspace);
  const again = () => queries.invalidateQueries({ queryKey: ["provider-keys"] });
  const store = mayChange && (
    <Button look="primary" icon={KeyRound} onClick={() => setAsked({ kind: "new" })}>
      Store a key
    </Button>
  );
  return (
    <>
      <Loaded query={list}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty icon={icon} action={store || <Button onClick={() => void list.refetch()}>Refresh</Button>}>
              This workspace uses the keys of the server. With a key of its own at a provider, the provider bills it directly and its runs cost nothing here.
            </Empty>
          ) : (
            <div className="stack">
              <div className="row end">{store}</div>
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Provider</th>
                      <th scope="col">Key</th>
                      <th scope="col">Stored</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((one) => (
                      <tr key={one.provider}>
                        <td data-label="Provider"><strong>{one.provider}</strong></td>
                        <td data-label="Key"><code>{one.hint}</code></td>
                        <td data-label="Stored">{date(one.created_at)}</td>
                        <td className="end">{mayChange && <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete the key at ${one.provider}`} title="Delete" onClick={() => setAsked({ kind: "delete", provider: one.provider })} />}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            </div>
          )
        }
      </Loaded>
      {asked?.kind === "new" && <StoreKey onClose={() => setAsked(null)} onDone={again} />}
      {asked?.kind === "delete" && (
        <FormDialog title={`Delete the key at ${asked.provider}?`} action="Delete" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}/provider-keys/{provider}", { params: { path: { workspace, provider: asked.provider } } });
            tell("The key was deleted.");
            await again();
          }}>
          {() => <p>Runs of {asked.provider} use the key of the server again, and are charged to this workspace.</p>}
        </FormDialog>
      )}
    </>
  );
}

function StoreKey({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const catalog = useCatalog();
  const providers = useMemo(() => [...new Set(catalog.data?.map((one) => makerOf(one.id)))].filter((name) => name !== "local").sort(), [catalog.data]);
  const [provider, setProvider] = useState("");
  const [key, setKey] = useState("");
  return (
    <FormDialog title="Store a key at a provider" action="Store the key" onClose={onClose} fields={["provider", "key"]}
      onSubmit={async () => {
        await api.PUT("/api/admin/v1/workspaces/{workspace}/provider-keys/{provider}", { params: { path: { workspace, provider: provider || providers[0]! } }, body: { key } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Provider" fault={faults.provider}>
            {(control) => (
              <select {...control} className="input" value={provider} onChange={(event) => setProvider(event.target.value)}>
                {providers.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Key" hint="It is stored encrypted, and never shown again." fault={faults.key}>
            {(control) => <input {...control} {...textInput({ value: key, onChange: setKey })} type="password" autoComplete="off" />}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
