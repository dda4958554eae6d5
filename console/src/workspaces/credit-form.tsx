import { useMemo, useState } from "react";
import { api } from "../api/client";
import { newId } from "../browser";
import { Field } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";

/** Books money into a workspace, or a correction out of it. */
export function CreditForm({ workspace, onClose, onDone }: { workspace: string; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("payment");
  // What is sent again after a lost answer is booked once; something else is another credit.
  const key = useMemo(newId, [amount, reason]);
  return (
    <FormDialog title={`Fund ${workspace}`} action="Add funds" onClose={onClose} fields={["amount", "reason"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/workspaces/{workspace}/credit", { params: { path: { workspace }, header: { "Idempotency-Key": key } }, body: { amount, reason } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Amount in dollars" hint="A negative amount is a correction." fault={faults.amount}>{(control) => <input {...control} {...textInput({ value: amount, onChange: setAmount })} inputMode="decimal" placeholder="20" />}</Field>
          <Field label="Reason" hint="The ledger shows it." fault={faults.reason}>{(control) => <input {...control} {...textInput({ value: reason, onChange: setReason })} />}</Field>
        </>
      )}
    </FormDialog>
  );
}
