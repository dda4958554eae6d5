import { useState } from "react";
import { api } from "../api/client";
import type { components } from "../api/schema";
import { Field } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { dollars } from "../format";

/** Charges a run by another version of its rate card, or by the one in force; a run that has it stays as it is. */
export function RerateForm({ run, onClose, onDone }: { run: components["schemas"]["RunDetailShown"]; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [version, setVersion] = useState("");
  const [reason, setReason] = useState("");
  const [mayRaise, setMayRaise] = useState(false);
  return (
    <FormDialog title="Re-rate the run" action="Re-rate" onClose={onClose} fields={["to_version", "reason"]}
      onSubmit={async () => {
        const body = { to_version: version || null, reason, may_raise: mayRaise, is_dry_run: false };
        await api.POST("/api/admin/v1/runs/{run_id}/rerate", { params: { path: { run_id: run.id } }, body });
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Version of the rate card" hint={`The one in force where this is empty. ${run.workspace} was charged ${dollars(run.charge ?? "0")} by ${run.rate_version}.`} fault={faults.to_version}>{(control) => <input {...control} {...textInput({ value: version, onChange: setVersion })} />}</Field>
          <Field label="Reason" hint="The ledger shows it." fault={faults.reason}>{(control) => <input {...control} {...textInput({ value: reason, onChange: setReason })} />}</Field>
          <label className="check">
            <input type="checkbox" checked={mayRaise} onChange={(event) => setMayRaise(event.target.checked)} /> It may cost more, up to what was held
          </label>
        </>
      )}
    </FormDialog>
  );
}
