import { useState } from "react";
import { api } from "../api/client";
import type { components } from "../api/schema";
import { Field } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { dollars } from "../format";

/** Gives back what a run was charged, in part or whole; the server does it once. */
export function RefundForm({ run, onClose, onDone }: { run: components["schemas"]["RunDetailShown"]; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [amount, setAmount] = useState(run.charge ?? "");
  const [reason, setReason] = useState("");
  return (
    <FormDialog title="Refund the run" action="Refund" onClose={onClose} fields={["amount", "reason"]}
      onSubmit={async () => {
        await api.POST("/api/admin/v1/runs/{run_id}/refund", { params: { path: { run_id: run.id } }, body: { amount, reason, is_dry_run: false } });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Amount in dollars" hint={`${run.workspace} was charged ${dollars(run.charge ?? "0")}. A run is refunded once.`} fault={faults.amount}>{(control) => <input {...control} {...textInput({ value: amount, onChange: setAmount })} inputMode="decimal" />}</Field>
          <Field label="Reason" hint="The ledger shows it." fault={faults.reason}>{(control) => <input {...control} {...textInput({ value: reason, onChange: setReason })} />}</Field>
        </>
      )}
    </FormDialog>
  );
}
