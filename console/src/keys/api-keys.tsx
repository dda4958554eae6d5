import { useQueryClient } from "@tanstack/react-query";
import { Ban, KeyRound, Pencil, Plus, RotateCw } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, StateTag } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { dollars, roundDollars } from "../format";
import { RotateKey, TermsOfKey, networksOf } from "./terms";

type Key = components["schemas"]["KeyShown"];
type Period = components["schemas"]["BudgetPeriod"];
type Asked = { kind: "new" } | { kind: "change" | "rotate" | "revoke"; key: Key };

/** The keys that programs call this workspace with. */
export function ApiKeys() {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<Asked | null>(null);
  const list = usePages(["keys", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/keys", { params: { path: { workspace }, query: { cursor } } })),
  );
  const again = () => Promise.all([queries.invalidateQueries({ queryKey: ["keys"] }), queries.invalidateQueries({ queryKey: ["keys-named"] })]);
  const close = () => setAsked(null);
  const make = mayChange && (
    <Button look="primary" icon={Plus} onClick={() => setAsked({ kind: "new" })}>
      Create a key
    </Button>
  );
  return (
    <>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={KeyRound} action={make || <Button onClick={() => void list.query.refetch()}>Refresh</Button>}>This workspace has no key yet.</Empty>
          ) : (
            <div className="stack">
              <div className="row end">{make}</div>
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Label</th>
                      <th scope="col">Key</th>
                      <th scope="col">Team</th>
                      <th scope="col">Models</th>
                      <th scope="col" className="end">Spent</th>
                      <th scope="col">Created</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {list.rows.map((one) => (
                      <tr key={one.id}>
                        <td data-label="Label"><strong>{one.label || "–"}</strong></td>
                        <td data-label="Key"><code>{one.hint}</code></td>
                        <td data-label="Team">{one.team ?? "–"}</td>
                        <td data-label="Models">{one.models?.join(", ") ?? "all"}</td>
                        <td data-label="Spent" className="end">
                          <span>{one.budget === null ? "no budget" : `${roundDollars(one.spent)} of ${dollars(one.budget)}${one.budget_period === "total" ? "" : ` a ${one.budget_period}`}`}</span>
                        </td>
                        <td data-label="Created"><TermsOfKey terms={one} /></td>
                        <td className="end">
                          {one.revoked_at ? (
                            <StateTag state="revoked" />
                          ) : (
                            mayChange && (
                              <div className="row end">
                                <Button size="small" look="quiet" icon={Pencil} aria-label={`Change ${one.label || one.hint}`} title="Change" onClick={() => setAsked({ kind: "change", key: one })} />
                                <Button size="small" look="quiet" icon={RotateCw} aria-label={`Rotate ${one.label || one.hint}`} title="Rotate" onClick={() => setAsked({ kind: "rotate", key: one })} />
                                <Button size="small" look="danger" icon={Ban} aria-label={`Revoke ${one.label || one.hint}`} onClick={() => setAsked({ kind: "revoke", key: one })}>
                                  Revoke
                                </Button>
                              </div>
                            )
                          )}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
            </div>
          )
        }
      </Loaded>
      {asked?.kind === "new" && <KeyForm onClose={close} onDone={again} />}
      {asked?.kind === "change" && <KeyForm shown={asked.key} onClose={close} onDone={again} />}
      {asked?.kind === "rotate" && (
        <RotateKey name={asked.key.label || asked.key.hint} onClose={() => void again().then(close)}
          rotate={async (overlap_hours) =>
            (await documentOf(api.POST("/api/admin/v1/workspaces/{workspace}/keys/{key_id}/rotate", { params: { path: { workspace, key_id: asked.key.id } }, body: { overlap_hours } }))).secret
          }
        />
      )}
      {asked?.kind === "revoke" && (
        <FormDialog title={`Revoke ${asked.key.label || asked.key.hint}?`} action="Revoke" isDangerous onClose={close}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}/keys/{key_id}", { params: { path: { workspace, key_id: asked.key.id } } });
            tell("The key was revoked.");
            await again();
          }}>
          {() => <p>Programs that use this key are refused within a second. You cannot undo this.</p>}
        </FormDialog>
      )}
    </>
  );
}

/** A key to be created, or an existing one to be changed. */
function KeyForm({ shown, onClose, onDone }: { shown?: Key; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const [label, setLabel] = useState(shown?.label ?? "");
  const [team, setTeam] = useState(shown?.team ?? "");
  const [models, setModels] = useState(shown?.models?.join(", ") ?? "");
  const [budget, setBudget] = useState(shown?.budget ?? "");
  const [period, setPeriod] = useState<Period>((shown?.budget_period as Period | null) ?? "month");
  const [days, setDays] = useState("");
  const [networks, setNetworks] = useState(shown?.networks.join(", ") ?? "");
  const submit = async () => {
    const named = models.split(/[,\s]+/).filter(Boolean);
    const body = { label, team: team || null, models: named.length > 0 ? named : null, budget: budget || null, networks: networksOf(networks) };
    if (shown) {
      await api.PATCH("/api/admin/v1/workspaces/{workspace}/keys/{key_id}", { params: { path: { workspace, key_id: shown.id } }, body: { ...body, ...(budget && { budget_period: period }), ...(days && { expires_in_days: Number(days) }) } });
      await onDone();
      return null;
    }
    const issued = await documentOf(
      api.POST("/api/admin/v1/workspaces/{workspace}/keys", {
        params: { path: { workspace } },
        body: { ...body, budget_period: budget ? period : null, organization: null, sso_required: false, expires_in_days: days ? Number(days) : null },
      }),
    );
    await onDone();
    return issued.secret;
  };
  return (
    <FormDialog title={shown ? `Change ${shown.label || shown.hint}` : "Create a key"} action={shown ? "Save" : "Create the key"} onClose={onClose} fields={["label", "team", "models", "budget", "budget_period", "expires_in_days", "networks"]} onSubmit={submit}>
      {(faults) => (
        <>
          <Field label="Label" hint="What uses it, such as: website." fault={faults.label}>{(control) => <input {...control} {...textInput({ value: label, onChange: setLabel })} autoComplete="off" />}</Field>
          <Field label="Team (optional)" hint="Keys of one team can share a budget." fault={faults.team}>{(control) => <input {...control} {...textInput({ value: team, onChange: setTeam })} />}</Field>
          <Field label="Models (optional)" hint="The models it may run, separated by commas. local/* allows every model of that maker." fault={faults.models}>{(control) => <input {...control} {...textInput({ value: models, onChange: setModels })} />}</Field>
          <div className="form-grid">
            <Field label="Budget in dollars (optional)" fault={faults.budget}>{(control) => <input {...control} {...textInput({ value: budget, onChange: setBudget })} inputMode="decimal" />}</Field>
            <Field label="Period" fault={faults.budget_period}>
              {(control) => (
                <select {...control} className="input" value={period} onChange={(event) => setPeriod(event.target.value as Period)}>
                  <option value="day">day</option>
                  <option value="week">week</option>
                  <option value="month">month</option>
                  <option value="total">all time</option>
                </select>
              )}
            </Field>
          </div>
          <Field label="Ends after days (optional)" hint={shown ? "Counted from now; leave it empty to keep the end as it is." : "Without it the key has no end."} fault={faults.expires_in_days}>
            {(control) => <input {...control} {...textInput({ value: days, onChange: setDays })} inputMode="numeric" />}
          </Field>
          <Field label="Networks (optional)" hint="From where it may be used: addresses, or networks such as 203.0.113.0/24, separated by commas." fault={faults.networks}>
            {(control) => <input {...control} {...textInput({ value: networks, onChange: setNetworks })} />}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
