import { useQueryClient } from "@tanstack/react-query";
import { Building2, CircleDollarSign, Plus } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import { useMe, useSession } from "../api/session";
import { Button, Empty, Field, ForOthers, Loaded, PageHead, StateTag } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { bytes, date, roundDollars } from "../format";
import { CreditForm } from "../workspaces/credit-form";

export function Workspaces() {
  const { isOperator } = useMe();
  const { retry } = useSession();
  const queries = useQueryClient();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "credit"; name: string } | null>(null);
  const list = usePages(["workspaces"], (cursor) => documentOf(api.GET("/api/admin/v1/workspaces", { params: { query: { cursor } } })), 10);
  const again = async () => {
    await Promise.all([queries.invalidateQueries({ queryKey: ["workspaces"] }), queries.invalidateQueries({ queryKey: ["workspace"] })]);
    retry(); // the switch at the top names workspaces, too
  };
  if (!isOperator) {
    return <ForOthers title="Workspaces" who="operators" />;
  }
  const make = (
    <Button look="primary" icon={Plus} onClick={() => setAsked({ kind: "new" })}>
      Create a workspace
    </Button>
  );
  return (
    <>
      <PageHead title="Workspaces" actions={make}>
        Each workspace has its own money, keys, members, limits and files.
      </PageHead>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={Building2} action={make}>There is no workspace yet.</Empty>
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
                        <td data-label="Name"><Link href={`/workspaces/${encodeURIComponent(one.name)}`}><strong>{one.name}</strong></Link></td>
                        <td data-label="State">
                          <span><StateTag state={one.state} /> {one.delete_at && <span className="small soft">until {date(one.delete_at)}</span>}</span>
                        </td>
                        <td data-label="Billing">{one.billing}</td>
                        <td data-label="Balance" className="end">{roundDollars(one.balance)}</td>
                        <td data-label="Held" className="end">{roundDollars(one.held)}</td>
                        <td data-label="Files" className="end">{bytes(one.storage.bytes)}</td>
                        <td className="end">
                          <div className="row end">
                            <Button size="small" icon={CircleDollarSign} aria-label={`Fund ${one.name}`} onClick={() => setAsked({ kind: "credit", name: one.name })}>Fund</Button>
                          </div>
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
      {asked?.kind === "credit" && <CreditForm workspace={asked.name} onClose={() => setAsked(null)} onDone={again} />}
    </>
  );
}

function NewWorkspace({ onClose, onDone }: { onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState("");
  const [billing, setBilling] = useState<"prepaid" | "postpaid">("prepaid");
  return (
    <FormDialog title="Create a workspace" action="Create it" onClose={onClose} fields={["name", "billing"]}
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
                <option value="prepaid">Prepaid: spends what was paid in</option>
                <option value="postpaid">Postpaid: may owe money, up to a cap</option>
              </select>
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
