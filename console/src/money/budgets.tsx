import { useQueryClient } from "@tanstack/react-query";
import { Pencil, PiggyBank, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { dollars, roundDollars, words } from "../format";

type Budget = components["schemas"]["BudgetShown"];
type NewBudget = components["schemas"]["NewBudget"];
type Scope = NewBudget["scope"];
type Period = NonNullable<NewBudget["period"]>;

const SCOPES: readonly (readonly [Scope, string])[] = [
  ["workspace", "The whole workspace"],
  ["team", "A team of keys"],
  ["key", "One key"],
  ["model", "One model"],
];
const PERIODS: readonly Period[] = ["day", "month", "total"];

/** What may be spent, on what, and how much of it is. */
export function Budgets() {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "change" | "delete"; budget: Budget } | null>(null);
  const list = usePages(
    ["budgets", workspace],
    (cursor) => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/budgets", { params: { path: { workspace }, query: { cursor } } })),
    10,
  );
  const again = () => queries.invalidateQueries({ queryKey: ["budgets"] });
  const make = mayChange && (
    <Button look="primary" icon={Plus} onClick={() => setAsked({ kind: "new" })}>
      Set a budget
    </Button>
  );
  return (
    <Loaded query={list.query}>
      {() => (
        <div className="stack">
          {list.rows.length === 0 ? (
            <Empty icon={PiggyBank} action={make || <Button onClick={() => void list.query.refetch()}>Look again</Button>}>
              No budget is set: the workspace may spend all that it has.
            </Empty>
          ) : (
            <>
              <div className="row end">{make}</div>
              <ul className="budgets">
                {list.rows.map((one) => (
                  <li className="card stack tight" key={one.id}>
                    <div className="row spread">
                      <h3>{nameOf(one)}</h3>
                      {mayChange && (
                        <div className="row">
                          <Button size="small" look="quiet" icon={Pencil} aria-label={`Change the budget of ${nameOf(one)}`} onClick={() => setAsked({ kind: "change", budget: one })} />
                          <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete the budget of ${nameOf(one)}`} onClick={() => setAsked({ kind: "delete", budget: one })} />
                        </div>
                      )}
                    </div>
                    <progress max={Number(one.limit) || 1} value={Number(one.spent) + Number(one.held)} aria-label={`Spent of the budget of ${nameOf(one)}`} />
                    <p className="small number">
                      <strong>{roundDollars(one.spent)}</strong> of {dollars(one.limit)} {one.period === "total" ? "in all" : `this ${one.period}`}
                      {Number(one.held) > 0 && `, ${roundDollars(one.held)} held`}
                    </p>
                    <p className="small soft">
                      Told at {one.thresholds.map((share) => `${share} %`).join(", ") || "no share"}. {one.is_enforced ? "Runs beyond it are refused." : "Runs beyond it go on."}
                    </p>
                  </li>
                ))}
              </ul>
              {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
            </>
          )}
          {asked?.kind === "new" && <BudgetForm onClose={() => setAsked(null)} onDone={again} />}
          {asked?.kind === "change" && <BudgetForm budget={asked.budget} onClose={() => setAsked(null)} onDone={again} />}
          {asked?.kind === "delete" && (
            <FormDialog title={`Delete the budget of ${nameOf(asked.budget)}?`} action="Delete" isDangerous onClose={() => setAsked(null)}
              onSubmit={async () => {
                await api.DELETE("/api/admin/v1/workspaces/{workspace}/budgets/{budget_id}", { params: { path: { workspace, budget_id: asked.budget.id } } });
                tell("The budget was deleted.");
                await again();
              }}>
              {() => <p>What was spent stays in the ledger; nothing bounds it any more.</p>}
            </FormDialog>
          )}
        </div>
      )}
    </Loaded>
  );
}

function nameOf(budget: Budget): string {
  return budget.scope === "workspace" ? "the workspace" : `${budget.scope} ${budget.subject ?? ""}`;
}

function BudgetForm({ budget, onClose, onDone }: { budget?: Budget; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const [scope, setScope] = useState<Scope>((budget?.scope as Scope) ?? "workspace");
  const [subject, setSubject] = useState(budget?.subject ?? "");
  const [limit, setLimit] = useState(budget?.limit ?? "");
  const [period, setPeriod] = useState<Period>((budget?.period as Period) ?? "month");
  const [thresholds, setThresholds] = useState((budget?.thresholds ?? [50, 80, 100]).join(", "));
  const [isEnforced, setEnforced] = useState(budget?.is_enforced ?? true);
  const shares = thresholds.split(/[,\s]+/).filter(Boolean).map(Number);
  return (
    <FormDialog title={budget ? `Change the budget of ${nameOf(budget)}` : "Set a budget"} action={budget ? "Change" : "Set the budget"} onClose={onClose} fields={["scope", "subject", "limit", "period", "thresholds"]}
      onSubmit={async () => {
        const body = { limit, period, thresholds: shares, is_enforced: isEnforced };
        if (budget) {
          await api.PATCH("/api/admin/v1/workspaces/{workspace}/budgets/{budget_id}", { params: { path: { workspace, budget_id: budget.id } }, body });
        } else {
          await api.POST("/api/admin/v1/workspaces/{workspace}/budgets", { params: { path: { workspace } }, body: { ...body, scope, subject: scope === "workspace" ? null : subject } });
        }
        await onDone();
      }}>
      {(faults) => (
        <>
          {!budget && (
            <Field label="Of what" fault={faults.scope}>
              {(control) => (
                <select {...control} className="input" value={scope} onChange={(event) => setScope(event.target.value as Scope)}>
                  {SCOPES.map(([one, title]) => (
                    <option key={one} value={one}>
                      {title}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          )}
          {!budget && scope !== "workspace" && (
            <Field label={words(scope)} hint={scope === "model" ? "provider/model" : scope === "key" ? "The id of the key." : "The team that keys carry."} fault={faults.subject}>
              {(control) => <input {...control} {...textInput({ value: subject, onChange: setSubject })} />}
            </Field>
          )}
          <Field label="Limit, in dollars" fault={faults.limit}>{(control) => <input {...control} {...textInput({ value: limit, onChange: setLimit })} inputMode="decimal" placeholder="50" />}</Field>
          <Field label="For each" fault={faults.period}>
            {(control) => (
              <select {...control} className="input" value={period} onChange={(event) => setPeriod(event.target.value as Period)}>
                {PERIODS.map((one) => (
                  <option key={one} value={one}>
                    {one === "total" ? "all time" : one}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Tell at these shares, in percent" fault={faults.thresholds}>{(control) => <input {...control} {...textInput({ value: thresholds, onChange: setThresholds })} />}</Field>
          <label className="check">
            <input type="checkbox" checked={isEnforced} onChange={(event) => setEnforced(event.target.checked)} /> Refuse runs beyond it
          </label>
        </>
      )}
    </FormDialog>
  );
}
