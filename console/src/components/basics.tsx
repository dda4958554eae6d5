import { type LucideIcon, Check, Copy, Inbox, X } from "lucide-react";
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Fault } from "../api/faults";

type Look = "primary" | "danger" | "quiet" | "";

interface ButtonProperties extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  size?: "small" | "";
  icon?: LucideIcon;
  /** Shows that what was asked for is under way; a second press does nothing. */
  isBusy?: boolean;
}

export function Button({ look = "", size = "", icon: Icon, isBusy = false, children, className = "", ...rest }: ButtonProperties) {
  const only = children === undefined ? "icon" : "";
  return (
    <button type="button" className={`button ${look} ${size} ${only} ${className}`} {...rest} disabled={rest.disabled || isBusy} aria-busy={isBusy || undefined}>
      {isBusy ? <span className="spinner" aria-hidden="true" /> : Icon && <Icon size={size ? 15 : 17} aria-hidden="true" />}
      {children}
    </button>
  );
}

export function PageHead({ title, children, actions }: { title: string; children?: ReactNode; actions?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Fairlead`;
  }, [title]);
  return (
    <div className="page-head">
      <div className="grow">
        <h1>{title}</h1>
        {children && <p>{children}</p>}
      </div>
      {actions && <div className="row">{actions}</div>}
    </div>
  );
}

/** What stands where nothing is yet: a sentence, and a button that changes it. */
export function Empty({ icon: Icon = Inbox, children, action }: { icon?: LucideIcon; children: ReactNode; action?: ReactNode }) {
  return (
    <div className="empty">
      <Icon size={36} strokeWidth={1.4} aria-hidden="true" />
      <p>{children}</p>
      {action}
    </div>
  );
}

export function Loading({ children = "Loading…" }: { children?: ReactNode }) {
  return (
    <div className="loading" role="status">
      <span className="spinner" aria-hidden="true" />
      {children}
    </div>
  );
}

export function FaultNotice({ error, retry }: { error: unknown; retry?: () => void }) {
  const fault = error instanceof Fault ? error : null;
  return (
    <div className="notice bad" role="alert">
      <p>{fault ? fault.message : "Something went wrong in the console. Load the page again."}</p>
      {fault?.requestId && <p className="small">Request {fault.requestId}</p>}
      {retry && (
        <p>
          <Button size="small" onClick={retry}>
            Try again
          </Button>
        </p>
      )}
    </div>
  );
}

/** What stands for something that is loaded: that it is, why it cannot be, or the thing itself. */
export function Loaded<T>({ query, children }: { query: { data: T | undefined; error: unknown; refetch(): unknown }; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) {
    return <>{children(query.data)}</>;
  }
  return query.error ? <FaultNotice error={query.error} retry={() => void query.refetch()} /> : <Loading />;
}

interface FieldProperties {
  label: ReactNode;
  hint?: ReactNode;
  fault?: string | undefined;
  /** Gets the id and the descriptions that the control is to carry. */
  children: (control: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean | undefined }) => ReactNode;
  className?: string;
}

export function Field({ label, hint, fault, children, className = "" }: FieldProperties) {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ") || undefined;
  return (
    <div className={`field ${className}`}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": described, "aria-invalid": fault ? true : undefined })}
      {hint && (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {fault && (
        <p className="fault" id={`${id}-fault`} role="alert">
          {fault}
        </p>
      )}
    </div>
  );
}

export function Dialog({ title, onClose, children, canClose = true, className = "" }: { title: string; onClose: () => void; children: ReactNode; canClose?: boolean; className?: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => {
    const one = dialog.current;
    one?.showModal();
    return () => one?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`dialog ${className}`}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        if (canClose) {
          onClose();
        }
      }}
    >
      <div className="dialog-body">
        <div className="dialog-head">
          <h2 id={heading}>{title}</h2>
          {canClose && <Button look="quiet" size="small" icon={X} aria-label="Close" onClick={onClose} />}
        </div>
        {children}
      </div>
    </dialog>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <Button
      size="small"
      icon={isCopied ? Check : Copy}
      onClick={async () => {
        await navigator.clipboard.writeText(text);
        setCopied(true);
        setTimeout(() => setCopied(false), 1600);
      }}
    >
      {isCopied ? "Copied" : label}
    </Button>
  );
}

/** A secret right after it was made: the only time that anybody sees it. */
export function Secret({ value }: { value: string }) {
  return (
    <div className="stack tight">
      <div className="secret">
        <code>{value}</code>
        <CopyButton text={value} />
      </div>
      <p className="small soft">It is shown this once. Keep it where secrets are kept.</p>
    </div>
  );
}

export function Tabs<T extends string>({ label, tabs, chosen, onChoose }: { label: string; tabs: readonly (readonly [T, string])[]; chosen: T; onChoose: (tab: T) => void }) {
  return (
    <div className="tabs" role="tablist" aria-label={label}>
      {tabs.map(([name, title], at) => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={name === chosen}
          tabIndex={name === chosen ? 0 : -1}
          onClick={() => onChoose(name)}
          onKeyDown={(event) => {
            const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
            const next = tabs[(at + step + tabs.length) % tabs.length];
            if (step && next) {
              event.preventDefault();
              onChoose(next[0]);
              const buttons = event.currentTarget.parentElement?.querySelectorAll("button");
              buttons?.[(at + step + tabs.length) % tabs.length]?.focus();
            }
          }}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

const TONES: Record<string, string> = {
  succeeded: "good",
  completed: "good",
  ready: "good",
  active: "good",
  configured: "good",
  live: "good",
  on: "good",
  failed: "bad",
  refused: "bad",
  expired: "bad",
  lost: "bad",
  revoked: "bad",
  deleting: "bad",
  cooling: "warn",
  cooldown: "warn",
  canceled: "warn",
  cancelled: "warn",
  canceling: "warn",
  suspended: "warn",
  running: "accent",
  in_progress: "accent",
  dispatched: "accent",
  accepted: "accent",
  preparing: "accent",
};

export function StateTag({ state }: { state: string }) {
  return <span className={`tag ${TONES[state.toLowerCase()] ?? ""}`}>{state.replace(/_/g, " ")}</span>;
}
