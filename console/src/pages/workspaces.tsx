import { useQueryClient } from "@tanstack/react-query";
import { Building2, CircleDollarSign, Pause, Play, Plus, RotateCcw, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe, useSession } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead, StateTag } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { bytes, date, roundDollars } from "../format";

type Workspace = components["schemas"]["WorkspaceShown"];
type Change = "suspend" | "resume" | "restore";

const DONE: Record<Change, string> = { suspend: "is suspended: it runs nothing.", resume: "goes on.", restore: "is back." };

export function Workspaces() {
  const { isOperator } = useMe();
  const { retry } = useSession();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "credit" | "delete"; workspace: Workspace } | null>(null);
  const list = usePages(["workspaces"], (cursor) => documentOf(api.GET("/api/admin/v1/workspaces", { params: { query: { cursor } } })), 10);
  const again = async () => {
    await Promise.all([queries.invalidateQueries({ queryKey: ["workspaces"] }), queries.invalidateQueries({ queryKey: ["workspace"] })]);
    retry(); // the switch at the top names workspaces, too
  };
  const change = (one: Workspace, what: Change) => {
    const path = { params: { path: { workspace: one.name } } };
    const asking =
      what === "suspend"
        ? api.POST("/api/admin/v1/workspaces/{workspace}/suspend", path)
        : what === "resume"
          ? api.POST("/api/admin/v1/workspaces/{workspace}/resume", path)
          : api.POST("/api/admin/v1/workspaces/{workspace}/restore", path);
    void asking.then(() => tell(`${one.name} ${DONE[what]}`), tellFault).finally(again);
  };
  const make = isOperator && (
    <Button look="primary" icon={Plus} onClick={() => setAsked({ kind: "new" })}>
      Make a workspace
    </Button>
  );
  return (
    <>
      <PageHead title="Workspaces" actions={make}>
        Each has money, keys, members and files of its own.
      </PageHead>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={Building2} action={make || <Button onClick={() => void list.query.refetch()}>Look again</Button>}>There is no workspace yet.</Empty>
          ) : (
            <div className="stack">
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Name</th>
                      <th scope="col">State</th>
                      <th scope="col">Billing</th>
                      <th scope="col" className="end">Balance</th>
                      <th scope="col" className="end">Held</th>
                      <th scope="col" className="end">Files</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {list.rows.map((one) => (
                      <tr key={one.id}>
                        <td data-label="Name"><strong>{one.name}</strong></td>
                        <td data-label="State">
                          <span><StateTag state={one.state} /> {one.delete_at && <span className="small soft">gone on {date(one.delete_at)}</span>}</span>
                        </td>
                        <td data-label="Billing">{one.billing}</td>
                        <td data-label="Balance" className="end">{roundDollars(one.balance)}</td>
                        <td data-label="Held" className="end">{roundDollars(one.held)}</td>
                        <td data-label="Files" className="end">{bytes(one.storage.bytes)}</td>
                        <td className="end">
                          {isOperator && (
                            <div className="row end">
                              <Button size="small" icon={CircleDollarSign} aria-label={`Fund ${one.name}`} onClick={() => setAsked({ kind: "credit", workspace: one })}>Fund</Button>
                              {one.state === "active" && <Button size="small" look="quiet" icon={Pause} aria-label={`Suspend ${one.name}`} title="Suspend" onClick={() => change(one, "suspend")} />}
                              {one.state === "suspended" && <Button size="small" look="quiet" icon={Play} aria-label={`Resume ${one.name}`} title="Resume" onClick={() => change(one, "resume")} />}
                              {one.state === "deleting" ? (
                                <Button size="small" look="quiet" icon={RotateCcw} aria-label={`Restore ${one.name}`} title="Restore" onClick={() => change(one, "restore")} />
                              ) : (
                                <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete ${one.name}`} title="Delete" onClick={() => setAsked({ kind: "delete", workspace: one })} />
                              )}
                            </div>
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
      {asked?.kind === "new" && <NewWorkspace onClose={() => setAsked(null)} onDone={again} />}
      {asked?.kind === "credit" && <Credit workspace={asked.workspace} onClose={() => setAsked(null)} onDone={again} />}
      {asked?.kind === "delete" && (
        <FormDialog title={`Delete ${asked.workspace.name}?`} action="Delete" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}", { params: { path: { workspace: asked.workspace.name } } });
            tell(`${asked.workspace.name} will be deleted; until then it can be restored.`);
            await again();
          }}>
          {() => <p>It runs nothing from now on, and is deleted when its days of grace are over. Until then it can be restored.</p>}
        </FormDialog>
      )}
    </>
  );
}

function NewWorkspace({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState("");
  const [billing, setBilling] = useState<"prepaid" | "postpaid">("prepaid");
  return (
    <FormDialog title="Make a workspace" action="Make it" onClose={onClose} fields={["name", "billing"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/workspaces", { body: { name, billing } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Name" fault={faults.name}>{(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="off" />}</Field>
          <Field label="Billing" fault={faults.billing}>
            {(control) => (
              <select {...control} className="input" value={billing} onChange={(event) => setBilling(event.target.value as "prepaid" | "postpaid")}>
                <option value="prepaid">prepaid: it spends what was paid in</option>
                <option value="postpaid">postpaid: it owes, up to a cap</option>
              </select>
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}

function Credit({ workspace, onClose, onDone }: { workspace: Workspace; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("payment");
  return (
    <FormDialog title={`Fund ${workspace.name}`} action="Book it" onClose={onClose} fields={["amount", "reason"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/workspaces/{workspace}/credit", { params: { path: { workspace: workspace.name } }, body: { amount, reason } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Amount, in dollars" hint="A negative one is a correction." fault={faults.amount}>{(control) => <input {...control} {...textInput({ value: amount, onChange: setAmount })} inputMode="decimal" />}</Field>
          <Field label="Reason" hint="It stands in the ledger." fault={faults.reason}>{(control) => <input {...control} {...textInput({ value: reason, onChange: setReason })} />}</Field>
        </>
      )}
    </FormDialog>
  );
}
