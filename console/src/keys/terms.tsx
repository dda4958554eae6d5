import { useState } from "react";
import { Field } from "../components/basics";
import { FormDialog } from "../components/form-dialog";
import { ago, date } from "../format";

interface Terms {
  networks: readonly string[];
  created_at: string;
  used_at: string | null;
  expires_at: string | null;
  previous_until: string | null;
}

/** Addresses and networks as they are typed, with commas or spaces between them. */
export function networksOf(text: string): string[] {
  return text.split(/[,\s]+/).filter(Boolean);
}

/** When a key was made and last used, when it ends, and from where it may be used. */
export function TermsOfKey({ terms }: { terms: Terms }) {
  const { networks, expires_at: end, previous_until: until } = terms;
  return (
    <span className="stack tight">
      <span>{date(terms.created_at)}</span>
      <span className="small soft">{terms.used_at ? `used ${ago(terms.used_at)}` : "never used"}</span>
      {end && <span className="small soft">{new Date(end) > new Date() ? `ends ${date(end)}` : "has ended"}</span>}
      {until && new Date(until) > new Date() && <span className="small soft">old secret until {date(until)}</span>}
      {networks.length > 0 && <span className="small soft">from {networks.join(", ")}</span>}
    </span>
  );
}

/** Asks how long the secret of before is good, and shows the new one once. */
export function RotateKey({ name, rotate, onClose }: { name: string; rotate: (overlapHours: number) => Promise<string>; onClose: () => void }) {
  const [hours, setHours] = useState(24);
  return (
    <FormDialog title={`Rotate ${name}`} action="Make a new secret" onClose={onClose} fields={["overlap_hours"]} onSubmit={() => rotate(hours)}>
      {(faults) => (
        <Field label="The old secret works for" hint="The key keeps its label, limits and history." fault={faults.overlap_hours}>
          {(control) => (
            <select {...control} className="input" value={hours} onChange={(event) => setHours(Number(event.target.value))}>
              <option value={0}>no longer</option>
              <option value={1}>one hour</option>
              <option value={24}>one day</option>
              <option value={168}>one week</option>
            </select>
          )}
        </Field>
      )}
    </FormDialog>
  );
}
