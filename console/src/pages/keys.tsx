import { useQueryClient } from "@tanstack/react-query";
import { Ban, KeyRound, Plus } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { date, dollars, roundDollars } from "../format";

type Key = components["schemas"]["KeyShown"];
type Period = "day" | "month" | "total";

export function Keys() {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "revoke"; key: Key } | null>(null);
  const list = usePages(["keys", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/keys", { params: { path: { workspace }, query: { cursor } } })),
  );
  const again = () => queries.invalidateQueries({ queryKey: ["keys"] });
  const make = mayChange && (
    <Button look="primary" icon={Plus} onClick={() => setAsked({ kind: "new" })}>
      Make a key
    </Button>
  );
  return (
    <>
      <PageHead title="Keys" actions={make}>
        What programs call this workspace with. A key is shown once, when it is made.
      </PageHead>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={KeyRound} action={make || <Button onClick={() => void list.query.refetch()}>Look again</Button>}>This workspace has no key yet.</Empty>
          ) : (
            <div className="stack">
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Label</th>
                      <th scope="col">Begins with</th>
                      <th scope="col">Team</th>
                      <th scope="col">Models</th>
                      <th scope="col" className="end">Spent</th>
                      <th scope="col">Made</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {list.rows.map((one) => (
                      <tr key={one.id}>
                        <td data-label="Label">{one.label || "–"}</td>
                        <td data-label="Begins with"><code>{one.hint}</code></td>
                        <td data-label="Team">{one.team ?? "–"}</td>
                        <td data-label="Models">{one.models?.join(", ") ?? "all"}</td>
                        <td data-label="Spent" className="end">
                          <span>{one.budget === null ? "no budget" : `${roundDollars(one.spent)} of ${dollars(one.budget)}${one.budget_period === "total" ? "" : ` a ${one.budget_period}`}`}</span>
                        </td>
                        <td data-label="Made">{date(one.created_at)}</td>
                        <td className="end">
                          {one.revoked_at ? (
                            <StateTag state="revoked" />
                          ) : (
                            mayChange && (
                              <Button size="small" look="danger" icon={Ban} aria-label={`Revoke ${one.label || one.hint}`} onClick={() => setAsked({ kind: "revoke", key: one })}>
                                Revoke
                              </Button>
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
      {asked?.kind === "new" && <NewKey onClose={() => setAsked(null)} onDone={again} />}
      {asked?.kind === "revoke" && (
        <FormDialog title={`Revoke ${asked.key.label || asked.key.hint}?`} action="Revoke" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}/keys/{key_id}", { params: { path: { workspace, key_id: asked.key.id } } });
            tell("The key was revoked.");
            await again();
          }}>
          {() => <p>Programs that use it are refused within a second. It cannot be undone.</p>}
        </FormDialog>
      )}
    </>
  );
}

function NewKey({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const [label, setLabel] = useState("");
  const [team, setTeam] = useState("");
  const [models, setModels] = useState("");
  const [budget, setBudget] = useState("");
  const [period, setPeriod] = useState<Period>("month");
  return (
    <FormDialog title="Make a key" action="Make the key" onClose={onClose} fields={["label", "team", "models", "budget", "budget_period"]}
      onSubmit={async () => {
        const named = models.split(/[,\s]+/).filter(Boolean);
        const made = await documentOf(
          api.POST("/api/admin/v1/workspaces/{workspace}/keys", {
            params: { path: { workspace } },
            body: { label, team: team || null, models: named.length > 0 ? named : null, budget: budget || null, budget_period: budget ? period : null, organization: null, sso_required: false },
          }),
        );
        await onDone();
        return made.secret;
      }}>
      {(faults) => (
        <>
          <Field label="Label" hint="What it is for, such as: website." fault={faults.label}>{(control) => <input {...control} {...textInput({ value: label, onChange: setLabel })} autoComplete="off" />}</Field>
          <Field label="Team (optional)" hint="Keys of one team can share a budget." fault={faults.team}>{(control) => <input {...control} {...textInput({ value: team, onChange: setTeam })} />}</Field>
          <Field label="Models (optional)" hint="Which it may run, with commas; local/* stands for all of a provider." fault={faults.models}>{(control) => <input {...control} {...textInput({ value: models, onChange: setModels })} />}</Field>
          <div className="form-grid">
            <Field label="Budget in dollars (optional)" fault={faults.budget}>{(control) => <input {...control} {...textInput({ value: budget, onChange: setBudget })} inputMode="decimal" />}</Field>
            <Field label="For each" fault={faults.budget_period}>
              {(control) => (
                <select {...control} className="input" value={period} onChange={(event) => setPeriod(event.target.value as Period)}>
                  <option value="day">day</option>
                  <option value="month">month</option>
                  <option value="total">all time</option>
                </select>
              )}
            </Field>
          </div>
        </>
      )}
    </FormDialog>
  );
}
