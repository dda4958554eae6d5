import { useState } from "react";
import { api, documentOf } from "../api/client";
import type { components } from "../api/schema";
import { Field } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { networksOf } from "../keys/terms";

type Scope = NonNullable<components["schemas"]["PersonalKeyShown"]["scopes"]>[number];
type Key = components["schemas"]["PersonalKeyShown"];

const SCOPES: readonly (readonly [Scope, string])[] = [
  ["read", "see workspaces"],
  ["run", "run models and workflows, and change deployments"],
  ["manage", "manage keys, members and budgets"],
  ["operate", "operate the installation"],
];
const DAYS = [7, 30, 90, 366] as const;

/** A dialog that creates a personal key, and shows it once. */
export function NewPersonalKey({ member, title, onClose }: { member: string; title: string; onClose: () => void }) {
  const [label, setLabel] = useState("");
  const [days, setDays] = useState<number>(90);
  const [networks, setNetworks] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>([]);
  const toggle = (scope: Scope) => setScopes((now) => (now.includes(scope) ? now.filter((one) => one !== scope) : [...now, scope]));
  return (
    <FormDialog title={title} action="Create the key" onClose={onClose} fields={["label", "expires_in_days", "networks", "scopes"]}
      onSubmit={async () =>
        (
          await documentOf(
            api.POST("/api/admin/v1/members/{member_id}/keys", {
              params: { path: { member_id: member } },
              body: { label, expires_in_days: days, networks: networksOf(networks), scopes: scopes.length > 0 ? [...scopes] : null, workspace: null },
            }),
          )
        ).secret
      }>
      {(faults) => (
        <>
          <Field label="Label" hint="Where it is used, such as: laptop." fault={faults.label}>
            {(control) => <input {...control} {...textInput({ value: label, onChange: setLabel })} autoComplete="off" />}
          </Field>
          <Field label="Ends after" fault={faults.expires_in_days}>
            {(control) => (
              <select {...control} className="input" value={days} onChange={(event) => setDays(Number(event.target.value))}>
                {DAYS.map((one) => (
                  <option key={one} value={one}>
                    {one} days
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Networks (optional)" hint="From where it may be used: addresses, or networks such as 203.0.113.0/24, separated by commas." fault={faults.networks}>
            {(control) => <input {...control} {...textInput({ value: networks, onChange: setNetworks })} autoComplete="off" />}
          </Field>
          <fieldset className="stack tight">
            <legend>It may only (everything, where nothing is chosen)</legend>
            {SCOPES.map(([scope, words]) => (
              <label key={scope} className="check">
                <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} /> {words}
              </label>
            ))}
            {faults.scopes && <p className="fault" role="alert">{faults.scopes}</p>}
          </fieldset>
        </>
      )}
    </FormDialog>
  );
}

/** What a personal key may do of what its member may, in a few words. */
export function mayOf({ scopes, workspace }: Key): string {
  const what = scopes?.join(", ") ?? "everything";
  return workspace ? `${what} in ${workspace}` : what;
}

export function RevokePersonalKey({ member, id, name, onClose, onDone }: { member: string; id: string; name: string; onClose: () => void; onDone: () => Promise<unknown> }) {
  return (
    <FormDialog title={`Revoke ${name}?`} action="Revoke" isDangerous onClose={onClose}
      onSubmit={async () => {
        await api.DELETE("/api/admin/v1/members/{member_id}/keys/{key_id}", { params: { path: { member_id: member, key_id: id } } });
        await onDone();
      }}>
      {() => <p>The key stops working within a second, and every session that was started with it ends. You cannot undo this.</p>}
    </FormDialog>
  );
}
