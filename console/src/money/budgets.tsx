import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil, PiggyBank, Plus, Trash2, TrendingUp, X } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { dateTime, dollars, roundDollars, words } from "../format";

type Budget = components["schemas"]["BudgetShown"];
type Addition = Budget["additions"][number];
type NewBudget = components["schemas"]["NewBudget"];
type Scope = NewBudget["scope"];
type Period = NonNullable<NewBudget["period"]>;

const SCOPES: readonly (readonly [Scope, string])[] = [
  ["workspace", "The whole workspace"],
  ["team", "A team of keys"],
  ["key", "One key"],
  ["model", "One model"],
  ["label", "Runs with a label"],
];
const HINTS: Readonly<Partial<Record<Scope, string>>> = {
  team: "The team that keys carry.",
  key: "The key that it limits.",
  model: "provider/model",
  label: "name=value, such as client=acme; runs without the label are not limited.",
};
const PERIODS: readonly Period[] = ["day", "week", "month", "total"];
type Weekday = NonNullable<NewBudget["reset_weekday"]>;
const WEEKDAYS: readonly Weekday[] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const TIME_ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone").filter((one) => one !== "UTC")];

/** Limits of spend, and how much of each is used. */
export function Budgets() {
  const { workspace, mayChange } = useMe();
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "change" | "add" | "delete"; budget: Budget } | { kind: "withdraw"; budget: Budget; addition: Addition } | null>(null);
  const list = usePages(
    ["budgets", workspace],
    (cursor) => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/budgets", { params: { path: { workspace }, query: { cursor } } })),
    10,
  );
  const keys = useKeys();
  const nameOf = (one: Budget) => titleOf(one, keys);
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
            <Empty icon={PiggyBank} action={make || <Button onClick={() => void list.query.refetch()}>Refresh</Button>}>
              No budget is set: the workspace may spend its whole balance.
            </Empty>
          ) : (
            <>
              <div className="row end">{make}</div>
              <ul className="budgets">
                {list.rows.map((one) => (
                  <li className="card stack tight" key={one.id}>
                    <div className="row spread single">
                      <h2>{nameOf(one)}</h2>
                      {mayChange && (
                        <div className="row">
                          <Button size="small" look="quiet" icon={Pencil} aria-label={`Change the budget of ${nameOf(one)}`} onClick={() => setAsked({ kind: "change", budget: one })} />
                          <Button size="small" look="quiet" icon={TrendingUp} aria-label={`Add to the budget of ${nameOf(one)}`} onClick={() => setAsked({ kind: "add", budget: one })} />
                          <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete the budget of ${nameOf(one)}`} onClick={() => setAsked({ kind: "delete", budget: one })} />
                        </div>
                      )}
                    </div>
                    <progress max={Number(one.limit_in_force) || 1} value={Number(one.spent) + Number(one.held)} aria-label={`Spent of the budget of ${nameOf(one)}`} />
                    <p className="small number">
                      <strong>{roundDollars(one.spent)}</strong> of {dollars(one.limit_in_force)} {one.period === "total" ? "in total" : one.period === "day" ? "today" : `this ${one.period}`}
                      {Number(one.held) > 0 && `, ${roundDollars(one.held)} held`}
                    </p>
                    {one.resets_at && <p className="small soft">Begins again {resetOf(one)}: next on {dateTime(one.resets_at)}.</p>}
                    {one.additions.map((addition) => (
                      <div className="row spread single" key={addition.id}>
                        <p className="small">
                          {dollars(addition.amount)} of it until {dateTime(addition.until)}: {addition.reason} <span className="soft">({addition.by})</span>
                        </p>
                        {mayChange && <Button size="small" look="quiet" icon={X} aria-label={`Withdraw the addition: ${addition.reason}`} onClick={() => setAsked({ kind: "withdraw", budget: one, addition })} />}
                      </div>
                    ))}
                    <p className="small soft">
                      {one.thresholds.length > 0 ? `Alerts at ${one.thresholds.map((share) => `${share} %`).join(", ")}.` : "No alerts."} {one.is_enforced ? "Runs beyond it are refused." : "Runs beyond it are allowed."}
                    </p>
                  </li>
                ))}
              </ul>
              {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
            </>
          )}
          {asked?.kind === "new" && <BudgetForm onClose={() => setAsked(null)} onDone={again} />}
          {asked?.kind === "change" && <BudgetForm budget={asked.budget} onClose={() => setAsked(null)} onDone={again} />}
          {asked?.kind === "add" && <AdditionForm budget={asked.budget} title={`Add to the budget: ${nameOf(asked.budget)}`} onClose={() => setAsked(null)} onDone={again} />}
          {asked?.kind === "withdraw" && (
            <FormDialog title="Withdraw the addition?" action="Withdraw" isDangerous onClose={() => setAsked(null)}
              onSubmit={async () => {
                await api.DELETE("/api/admin/v1/workspaces/{workspace}/budgets/{budget_id}/additions/{addition_id}", { params: { path: { workspace, budget_id: asked.budget.id, addition_id: asked.addition.id } } });
                await again();
              }}>
              {() => <p>The budget is {dollars(asked.addition.amount)} smaller at once. Runs that were admitted continue.</p>}
            </FormDialog>
          )}
          {asked?.kind === "delete" && (
            <FormDialog title={`Delete the budget: ${nameOf(asked.budget)}?`} action="Delete" isDangerous onClose={() => setAsked(null)}
              onSubmit={async () => {
                await api.DELETE("/api/admin/v1/workspaces/{workspace}/budgets/{budget_id}", { params: { path: { workspace, budget_id: asked.budget.id } } });
                tell("The budget was deleted.");
                await again();
              }}>
              {() => <p>The ledger keeps what was spent. Runs are no longer limited by this budget.</p>}
            </FormDialog>
          )}
        </div>
      )}
    </Loaded>
  );
}

function AdditionForm({ budget, title, onClose, onDone }: { budget: Budget; title: string; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const [amount, setAmount] = useState("");
  const [until, setUntil] = useState("");
  const [reason, setReason] = useState("");
  return (
    <FormDialog title={title} action="Add" onClose={onClose} fields={["amount", "until", "reason"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/workspaces/{workspace}/budgets/{budget_id}/additions", { params: { path: { workspace, budget_id: budget.id } }, body: { amount, until, reason } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Dollars to add" fault={faults.amount}>{(control) => <input {...control} {...textInput({ value: amount, onChange: setAmount })} inputMode="decimal" placeholder="50" />}</Field>
          <Field label="Last day" hint="In UTC." fault={faults.until}>{(control) => <input {...control} {...textInput({ value: until, onChange: setUntil })} type="date" />}</Field>
          <Field label="Reason" fault={faults.reason}>{(control) => <input {...control} {...textInput({ value: reason, onChange: setReason })} />}</Field>
        </>
      )}
    </FormDialog>
  );
}

type Key = components["schemas"]["KeyShown"];

/** The keys of the workspace, to be named and chosen. */
function useKeys(): readonly Key[] {
  const { workspace } = useMe();
  const keys = useQuery({
    queryKey: ["keys-named", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/keys", { params: { path: { workspace }, query: { limit: 200 } } })),
    staleTime: 30_000,
  });
  return keys.data?.items ?? [];
}

function titleOf({ scope, subject }: Pick<Budget, "scope" | "subject">, keys: readonly Key[]): string {
  if (scope === "workspace") {
    return "Whole workspace";
  }
  const key = scope === "key" ? keys.find((one) => one.id === subject) : undefined;
  return `${words(scope)} ${key ? key.label || key.hint : (subject ?? "")}`;
}

/** When each period of a budget begins, as in `every Monday at 06:00 Europe/Vienna`. */
function resetOf({ period, time_zone, reset_time, reset_weekday }: Budget): string {
  const day = period === "week" ? `every ${words(reset_weekday ?? "monday")}` : period === "month" ? "on the first day of a month" : "every day";
  return `${day} at ${reset_time} ${time_zone}`;
}

function BudgetForm({ budget, onClose, onDone }: { budget?: Budget; onClose: () => void; onDone: () => Promise<unknown> }) {
  const { workspace } = useMe();
  const keys = useKeys();
  const [scope, setScope] = useState<Scope>((budget?.scope as Scope) ?? "workspace");
  const [subject, setSubject] = useState(budget?.subject ?? "");
  const [limit, setLimit] = useState(budget?.limit ?? "");
  const [period, setPeriod] = useState<Period>((budget?.period as Period) ?? "month");
  const [timeZone, setTimeZone] = useState(budget?.time_zone ?? "UTC");
  const [resetTime, setResetTime] = useState(budget?.reset_time ?? "00:00");
  const [resetWeekday, setResetWeekday] = useState<Weekday>((budget?.reset_weekday as Weekday) ?? "monday");
  const [thresholds, setThresholds] = useState((budget?.thresholds ?? [50, 80, 100]).join(", "));
  const [isEnforced, setEnforced] = useState(budget?.is_enforced ?? true);
  const shares = thresholds.split(/[,\s]+/).filter(Boolean).map(Number);
  return (
    <FormDialog title={budget ? `Change the budget: ${titleOf(budget, keys)}` : "Set a budget"} action={budget ? "Change" : "Set the budget"} onClose={onClose} fields={["scope", "subject", "limit", "period", "time_zone", "reset_time", "reset_weekday", "thresholds"]}
      onSubmit={async () => {
        const isEndless = period === "total";
        const reset = { time_zone: isEndless ? null : timeZone, reset_time: isEndless ? null : resetTime, reset_weekday: period === "week" ? resetWeekday : null };
        const body = { limit, period, thresholds: shares, is_enforced: isEnforced, ...reset };
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
            <Field label="Scope" fault={faults.scope}>
              {(control) => (
                <select {...control} className="input" value={scope} onChange={(event) => {
                  setScope(event.target.value as Scope);
                  setSubject("");
                }}>
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
            <Field label={words(scope)} hint={HINTS[scope]} fault={faults.subject}>
              {(control) =>
                scope === "key" ? (
                  <select {...control} className="input" value={subject} onChange={(event) => setSubject(event.target.value)}>
                    <option value="">Choose a key</option>
                    {keys.filter((one) => !one.revoked_at).map((one) => (
                      <option key={one.id} value={one.id}>{one.label || one.hint}</option>
                    ))}
                  </select>
                ) : (
                  <input {...control} {...textInput({ value: subject, onChange: setSubject })} />
                )
              }
            </Field>
          )}
          <Field label="Limit in dollars" fault={faults.limit}>{(control) => <input {...control} {...textInput({ value: limit, onChange: setLimit })} inputMode="decimal" placeholder="50" />}</Field>
          <Field label="Period" fault={faults.period}>
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
          {period === "week" && (
            <Field label="Begins on" fault={faults.reset_weekday}>
              {(control) => (
                <select {...control} className="input" value={resetWeekday} onChange={(event) => setResetWeekday(event.target.value as Weekday)}>
                  {WEEKDAYS.map((one) => (
                    <option key={one} value={one}>{words(one)}</option>
                  ))}
                </select>
              )}
            </Field>
          )}
          {period !== "total" && (
            <>
              <Field label="Begins at" fault={faults.reset_time}>{(control) => <input {...control} {...textInput({ value: resetTime, onChange: setResetTime })} type="time" />}</Field>
              <Field label="Time zone" hint="By whose clocks, such as Europe/Vienna." fault={faults.time_zone}>{(control) => <input {...control} {...textInput({ value: timeZone, onChange: setTimeZone })} list="time-zones" />}</Field>
              <datalist id="time-zones">{TIME_ZONES.map((one) => <option key={one} value={one} />)}</datalist>
            </>
          )}
          <Field label="Alert at these percentages" fault={faults.thresholds}>{(control) => <input {...control} {...textInput({ value: thresholds, onChange: setThresholds })} />}</Field>
          <label className="check">
            <input type="checkbox" checked={isEnforced} onChange={(event) => setEnforced(event.target.checked)} /> Refuse runs beyond the budget
          </label>
        </>
      )}
    </FormDialog>
  );
}
