import { useState } from "react";
import { api } from "../api/client";
import type { components } from "../api/schema";
import { Field } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";

type Workspace = components["schemas"]["WorkspaceShown"];
type Change = components["schemas"]["WorkspaceChange"];

const FIELDS = ["billing", "cap", "subscription", "tier", "models", "providers", "organization", "sso_required", "markup", "switches", "limits.in_flight", "limits.commitment", "limits.storage_bytes", "limits.storage_files"];
const GIB = 1024 ** 3;

/** Changes billing, limits and rights of a workspace; only what was changed is sent. */
export function WorkspaceSettingsForm({ workspace: one, onClose, onDone }: { workspace: Workspace; onClose: () => void; onDone: () => Promise<unknown> }) {
  const start = textsOf(one);
  const [texts, setTexts] = useState(start);
  const [billing, setBilling] = useState(one.billing);
  const [isSsoRequired, setSsoRequired] = useState(one.sso_required);
  const [switches, setSwitches] = useState<Record<string, "on" | "off">>(() => ({ router: "on", estimate: "on", ...(one.switches as Record<string, "on" | "off">) }));
  const set = (name: keyof typeof start) => (value: string) => setTexts({ ...texts, [name]: value });
  const submit = async () => {
    const changed = (name: keyof typeof start) => texts[name] !== start[name];
    const limits: NonNullable<Change["limits"]> = {
      ...(changed("inFlight") && { in_flight: Number(texts.inFlight || "-1") }),
      ...(changed("commitment") && { commitment: texts.commitment || null }),
      ...(changed("storage") && { storage_bytes: texts.storage ? Math.round(Number(texts.storage) * GIB) : null }),
      ...(changed("files") && { storage_files: texts.files ? Number(texts.files) : null }),
    };
    const body: Change = {
      ...(billing !== one.billing && { billing }),
      ...(changed("cap") && { cap: texts.cap }),
      ...(changed("subscription") && { subscription: texts.subscription }),
      ...(changed("tier") && texts.tier && { tier: Number(texts.tier) }),
      ...(changed("models") && { models: namesOf(texts.models) }),
      ...(changed("providers") && { providers: namesOf(texts.providers) }),
      ...(changed("organization") && { organization: texts.organization || null }),
      ...(changed("markup") && { markup: texts.markup || null }),
      ...(isSsoRequired !== one.sso_required && { sso_required: isSsoRequired }),
      ...(isOther(switches, one.switches) && { switches }),
      ...(Object.keys(limits).length > 0 && { limits }),
    };
    await api.PATCH("/api/admin/v1/workspaces/{workspace}", { params: { path: { workspace: one.name } }, body });
    await onDone();
  };
  return (
    <FormDialog title={`Change ${one.name}`} action="Save" onClose={onClose} fields={FIELDS} onSubmit={submit}>
      {(faults) => {
        const text = (name: keyof typeof start, label: string, fault: string, hint: string, type = "text") => (
          <Field label={label} hint={hint} fault={faults[fault]}>
            {(control) => <input {...control} {...textInput({ value: texts[name], onChange: set(name) })} type={type} autoComplete="off" />}
          </Field>
        );
        return (
          <>
            <div className="form-grid">
              <Field label="Billing" hint="Postpaid workspaces may owe money, up to the cap." fault={faults.billing}>
                {(control) => (
                  <select {...control} className="input" value={billing} onChange={(event) => setBilling(event.target.value as Workspace["billing"])}>
                    <option value="prepaid">prepaid</option>
                    <option value="postpaid">postpaid</option>
                  </select>
                )}
              </Field>
              {text("cap", "Cap in dollars", "cap", "What a postpaid workspace may owe.")}
              {text("markup", "Markup in percent", "markup", "Added to list prices in place of the server's setting; -10 is a discount. Empty is the setting.")}
              {text("subscription", "Subscription", "subscription", "It decides how many jobs run in parallel.")}
              {text("tier", "Tier", "tier", "A number, which sets runs at a time and committed spend.", "number")}
              {text("inFlight", "Runs at a time", "limits.in_flight", "-1 is no limit.", "number")}
              {text("commitment", "Committed spend in dollars", "limits.commitment", "The most that all runs in flight may cost; empty is no limit.")}
              {text("storage", "Storage in GiB", "limits.storage_bytes", "0 is no limit; empty is the server's setting.", "number")}
              {text("files", "Files", "limits.storage_files", "0 is no limit; empty is the server's setting.", "number")}
            </div>
            {text("models", "Allowed models", "models", "Separated by commas; local/* allows every model of that maker. Empty allows all.")}
            {text("providers", "Allowed providers", "providers", "Separated by commas. Empty allows all.")}
            {text("organization", "Organization", "organization", "Whose tokens open this workspace; empty is none.")}
            <label className="check">
              <input type="checkbox" checked={isSsoRequired} onChange={(event) => setSsoRequired(event.target.checked)} /> Tokens must come from single sign-on
            </label>
            <fieldset className="field">
              <legend>Switches</legend>
              <div className="row">
                {Object.entries(switches).map(([name, state]) => (
                  <label className="check" key={name}>
                    <input type="checkbox" checked={state === "on"} onChange={(event) => setSwitches({ ...switches, [name]: event.target.checked ? "on" : "off" })} /> {name}
                  </label>
                ))}
              </div>
              {faults.switches && <p className="fault" role="alert">{faults.switches}</p>}
            </fieldset>
          </>
        );
      }}
    </FormDialog>
  );
}

function textsOf(one: Workspace) {
  return {
    cap: one.cap,
    markup: one.markup ?? "",
    subscription: one.subscription,
    tier: "",
    inFlight: String(one.limits.in_flight),
    commitment: one.limits.commitment ?? "",
    storage: String(Math.round((one.limits.storage_bytes / GIB) * 100) / 100),
    files: String(one.limits.storage_files),
    models: one.models?.join(", ") ?? "",
    providers: one.providers?.join(", ") ?? "",
    organization: one.organization ?? "",
  };
}

function namesOf(text: string): string[] | null {
  const names = text.split(/[,\s]+/).filter(Boolean);
  return names.length > 0 ? names : null;
}

/** Whether a switch was changed; one that the workspace does not name is on. */
function isOther(wanted: Readonly<Record<string, string>>, current: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).some(([name, state]) => (current[name] ?? "on") !== state);
}
