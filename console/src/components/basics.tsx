import { type LucideIcon, ArrowLeft, Check, Copy, Inbox, Lock, X } from "lucide-react";
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Link, useSearchParams } from "wouter";
import { Fault } from "../api/faults";
import { copyText } from "../browser";

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

/** The way back from a page of one thing to the list that it is in. */
export function BackLink({ href, children }: { href: string; children: ReactNode }) {
  return (
    <Link className="back" href={href}>
      <ArrowLeft size={15} aria-hidden="true" /> {children}
    </Link>
  );
}

/** Stands where nothing is yet: a sentence, and a button that changes it. */
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

/** Stands where somebody's role does not suffice. */
export function ForOthers({ title, who }: { title: string; who: string }) {
  return (
    <>
      <PageHead title={title} />
      <Empty icon={Lock} action={<Link className="button" href="/explore">Go to Explore</Link>}>{`This page is for ${who}.`}</Empty>
    </>
  );
}

export function FaultNotice({ error, retry }: { error: unknown; retry?: () => void }) {
  const fault = error instanceof Fault ? error : null;
  return (
    <div className="notice bad" role="alert">
      <p>{fault ? fault.message : "Something went wrong in the console. Reload the page."}</p>
      {fault?.requestId && <p className="small">Request id: <code>{fault.requestId}</code></p>}
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

/** Something that is loaded: that it is under way, why it failed, or the thing itself. */
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

/** A sentence about a field; what stands between backticks in a schema's own words is shown as code. */
export function Hint({ id, children }: { id?: string; children: ReactNode }) {
  const parts = typeof children === "string" ? children.split(/`([^`]+)`/) : [];
  return (
    <p className="hint" id={id}>
      {parts.length > 1 ? parts.map((part, at) => (at % 2 === 1 ? <code key={at}>{part}</code> : part)) : children}
    </p>
  );
}

export function Field({ label, hint, fault, children, className = "" }: FieldProperties) {
  const id = useId();
  const described = [hint && `${id}-hint`, fault && `${id}-fault`].filter(Boolean).join(" ") || undefined;
  return (
    <div className={`field ${className}`}>
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": described, "aria-invalid": fault ? true : undefined })}
      {hint && <Hint id={`${id}-hint`}>{hint}</Hint>}
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
        setCopied(await copyText(text));
        setTimeout(() => setCopied(false), 1600);
      }}
    >
      {isCopied ? "Copied" : label}
    </Button>
  );
}

/** A secret right after it was created: the only time that anybody sees it. */
export function Secret({ value }: { value: string }) {
  return (
    <div className="stack tight">
      <div className="secret">
        <code>{value}</code>
        <CopyButton text={value} />
      </div>
      <p className="small soft">Copy it now: it is shown only once.</p>
    </div>
  );
}

export function Tabs<T extends string>({ label, tabs, chosen, onChoose }: { label: string; tabs: readonly (readonly [T, string])[]; chosen: T; onChoose: (tab: T) => void }) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const row = list.current;
    const tab = row?.querySelector("[aria-selected=true]");
    if (row && tab) {
      const [around, inside] = [row.getBoundingClientRect(), tab.getBoundingClientRect()];
      row.scrollLeft += Math.min(0, inside.left - around.left) + Math.max(0, inside.right - around.right); // it may be wider than its page, which stays where it is
    }
  }, [chosen]);
  return (
    <div ref={list} className="tabs" role="tablist" aria-label={label}>
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

/** Tabs whose choice is in the address, so that a link can open any of them. */
export function useTab<T extends string>(tabs: readonly (readonly [T, string])[]): [T, (tab: T) => void] {
  const [search, setSearch] = useSearchParams();
  const first = tabs[0]![0];
  const chosen = tabs.find(([name]) => name === search.get("tab"))?.[0] ?? first;
  const choose = (tab: T) => setSearch(tab === first ? new URLSearchParams() : new URLSearchParams({ tab }), { replace: true });
  return [chosen, choose];
}

/** Names and values, such as the figures of a run. */
export function Facts({ children }: { children: ReactNode }) {
  return <dl className="facts">{children}</dl>;
}

export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

export function Figure({ label, value, children }: { label: string; value: ReactNode; children?: ReactNode }) {
  return (
    <div className="figure">
      <div className="label">{label}</div>
      <div className="value">{value}</div>
      {children && <div className="small soft">{children}</div>}
    </div>
  );
}

const TONES: Record<string, string> = {
  succeeded: "good",
  ready: "good",
  active: "good",
  configured: "good",
  live: "good",
  on: "good",
  prepared: "good",
  delivered: "good",
  failed: "bad",
  refused: "bad",
  unavailable: "bad",
  expired: "bad",
  lost: "bad",
  revoked: "bad",
  deleting: "bad",
  cooling: "warn",
  cooldown: "warn",
  canceled: "warn",
  canceling: "warn",
  suspended: "warn",
  stopped: "warn",
  not_ready: "accent",
  running: "accent",
  dispatched: "accent",
  accepted: "accent",
  preparing: "accent",
};

/** What the cloud API calls otherwise than the other APIs: people read one word for one state. */
const SAME_AS: Record<string, string> = { completed: "succeeded", cancelled: "canceled", in_progress: "running" };

export function StateTag({ state }: { state: string }) {
  const shown = SAME_AS[state] ?? state;
  return <span className={`tag ${TONES[shown.toLowerCase()] ?? ""}`}>{shown.replace(/_/g, " ")}</span>;
}
