import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Field } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";

/** A dialog that creates a personal key, and shows it once. */
export function NewPersonalKey({ member, title, onClose }: { member: string; title: string; onClose: () => void }) {
  const [label, setLabel] = useState("");
  return (
    <FormDialog title={title} action="Create the key" onClose={onClose} fields={["label"]}
      onSubmit={async () => (await documentOf(api.POST("/api/admin/v1/members/{member_id}/keys", { params: { path: { member_id: member } }, body: { label } }))).secret}>
      {(faults) => (
        <Field label="Label" hint="Where it is used, such as: laptop." fault={faults.label}>
          {(control) => <input {...control} {...textInput({ value: label, onChange: setLabel })} autoComplete="off" />}
        </Field>
      )}
    </FormDialog>
  );
}

export function RevokePersonalKey({ member, id, name, onClose, onDone }: { member: string; id: string; name: string; onClose: () => void; onDone: () => Promise<unknown> }) {
  return (
    <FormDialog title={`Revoke ${name}?`} action="Revoke" isDangerous onClose={onClose}
      onSubmit={async () => {
        await api.DELETE("/api/admin/v1/members/{member_id}/keys/{key_id}", { params: { path: { member_id: member, key_id: id } } });
        await onDone();
      }}>
      {() => <p>The key stops working within a second, and every session that was started with it ends. You cannot undo this.</p>}
    </FormDialog>
  );
}
