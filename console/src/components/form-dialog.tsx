import { type ReactNode, useState } from "react";
import { Fault } from "../api/faults";
import { Button, Dialog, Secret } from "./basics";

type Faults = Readonly<Record<string, string>>;

interface FormDialogProperties {
  title: string;
  action: string;
  isDangerous?: boolean;
  /** Do it; a Fault it throws is shown at its field. What it returns is a secret that is shown once. */
  onSubmit: () => Promise<string | null | void>;
  onClose: () => void;
  children: (faults: Faults) => ReactNode;
  /** Names of the fields that are in the form: a fault of any other one is shown above the buttons. */
  fields?: readonly string[];
}

/** A form in a dialog: it shows the message of the server at its field, and a secret once. */
export function FormDialog({ title, action, isDangerous = false, onSubmit, onClose, children, fields = [] }: FormDialogProperties) {
  const [fault, setFault] = useState<Fault | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [secret, setSecret] = useState<string | null>(null);
  const faults = fault?.fields ?? {};
  const isAtField = fields.some((name) => faults[name]);
  if (secret !== null) {
    return (
      <Dialog title={title} onClose={onClose}>
        <div className="stack">
          <Secret value={secret} />
          <div className="row end">
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="stack"
        noValidate
        onSubmit={async (event) => {
          event.preventDefault();
          setBusy(true);
          setFault(null);
          try {
            const secret = await onSubmit();
            if (secret) {
              setSecret(secret);
            } else {
              onClose();
            }
          } catch (error) {
            setFault(error instanceof Fault ? error : new Fault(0, String(error)));
          } finally {
            setBusy(false);
          }
        }}
      >
        {children(faults)}
        {fault && !isAtField && (
          <p className="notice bad" role="alert">
            {fault.message}
          </p>
        )}
        <div className="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button look={isDangerous ? "danger" : "primary"} type="submit" isBusy={isBusy}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface TextProperties {
  value: string;
  onChange: (value: string) => void;
}

/** What a plain text input takes, beside the control's own ids. */
export function textInput({ value, onChange }: TextProperties) {
  return { className: "input", value, onChange: (event: { target: { value: string } }) => onChange(event.target.value) };
}
