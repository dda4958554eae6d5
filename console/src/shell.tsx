import {
  Activity, Boxes, Building2, CircleUserRound, Compass, KeyRound, ListChecks, LogOut, Menu, Moon, Package, Plug, Receipt, Rocket, ScrollText, Settings2, Sun, SunMoon, Users, WalletCards, Workflow, X,
  type LucideIcon,
} from "lucide-react";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useLocation } from "wouter";
import { api, documentOf } from "./api/client";
import { useIsConnected } from "./api/connection";
import { Fault } from "./api/faults";
import { useMe, useSession } from "./api/session";
import { Button } from "./components/basics";
import { roundDollars } from "./format";
import { type Theme, chooseTheme, useTheme } from "./theme";

interface Entry {
  path: string;
  title: string;
  icon: LucideIcon;
  isForOperators?: boolean;
  /** Only for owners and operators. */
  isForChangers?: boolean;
  /** Only where the server executes workflows. */
  needsWorkflows?: boolean;
}

const GROUPS: readonly (readonly [string, readonly Entry[]])[] = [
  ["Create", [
    { path: "/explore", title: "Explore", icon: Compass },
    { path: "/workflows", title: "Workflows", icon: Workflow, needsWorkflows: true },
  ]],
  ["Monitor", [
    { path: "/runs", title: "Runs", icon: Activity },
    { path: "/jobs", title: "Jobs", icon: ListChecks, needsWorkflows: true },
    { path: "/money", title: "Money", icon: Receipt },
  ]],
  ["Workspace", [
    { path: "/keys", title: "Keys", icon: KeyRound },
    { path: "/members", title: "Members", icon: Users },
    { path: "/providers", title: "Providers", icon: Plug },
    { path: "/deployments", title: "Deployments", icon: Rocket, needsWorkflows: true },
    { path: "/settings", title: "Settings", icon: Settings2 },
    { path: "/audit-log", title: "Audit log", icon: ScrollText, isForChangers: true },
  ]],
  ["Installation", [
    { path: "/workspaces", title: "Workspaces", icon: Building2, isForOperators: true },
    { path: "/registry", title: "Registry", icon: Package, isForOperators: true },
  ]],
];

export function Shell({ children }: { children: ReactNode }) {
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [location] = useLocation();
  const content = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    setMenuOpen(false);
    if (!isFirst.current) {
      content.current?.focus({ preventScroll: true }); // a screen reader goes on at the new page
      window.scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [location]);
  return (
    <>
      <a className="skip" href="#content" onClick={() => content.current?.focus()}>
        Skip to content
      </a>
      <div className="shell">
        <div className="sidebar">
          <div className="sidebar-content">
            <Navigation />
          </div>
        </div>
        <div>
          <header className="topbar">
            <Button look="quiet" icon={Menu} className="menu-button" aria-label="Open the menu" onClick={() => setMenuOpen(true)} />
            <WorkspaceSwitch />
            <div className="grow" />
            <Balance />
            <ThemeButton />
            <Account />
          </header>
          <ConnectionBanner />
          <main ref={content} id="content" className="content" tabIndex={-1}>
            {children}
          </main>
        </div>
      </div>
      {isMenuOpen && <Drawer onClose={() => setMenuOpen(false)} />}
    </>
  );
}

function Drawer({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const one = dialog.current;
    one?.showModal();
    return () => one?.close();
  }, []);
  return (
    <dialog ref={dialog} className="drawer" aria-label="Menu" onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <div className="sidebar-content">
        <div className="row spread">
          <span className="brand">Menu</span>
          <Button look="quiet" icon={X} aria-label="Close the menu" onClick={onClose} />
        </div>
        <Navigation />
      </div>
    </dialog>
  );
}

/** Whether the server executes workflows, which an operator may have turned off. */
function useHasWorkflows(): boolean {
  const features = useQuery({ queryKey: ["features"], queryFn: () => documentOf(api.GET("/api/features")), staleTime: Infinity, retry: false });
  return !(features.error instanceof Fault && features.error.status === 404);
}

function Navigation() {
  const { isOperator, mayChange } = useMe();
  const hasWorkflows = useHasWorkflows();
  const [location] = useLocation();
  return (
    <nav className="navigation" aria-label="Pages">
      <Link className="brand" href="/explore">
        <img src="/console/icon.svg" alt="" />
        Fairlead
      </Link>
        {GROUPS.map(([title, entries]) => {
          const shown = entries.filter((one) => (isOperator || !one.isForOperators) && (mayChange || !one.isForChangers) && (hasWorkflows || !one.needsWorkflows));
          return shown.length > 0 && (
            <div key={title}>
              <h2>{title}</h2>
              <ul>
                {shown.map(({ path, title: name, icon: Icon }) => {
                  const isHere = location === path || location.startsWith(`${path}/`) || (path === "/explore" && location.startsWith("/models/"));
                  return (
                    <li key={path}>
                      <Link href={path} aria-current={isHere ? "page" : undefined}>
                        <Icon size={18} aria-hidden="true" />
                        {name}
                      </Link>
                    </li>
                  );
                })}
              </ul>
            </div>
          );
        })}
    </nav>
  );
}

function WorkspaceSwitch() {
  const { me } = useMe();
  const { workspace, chooseWorkspace } = useSession();
  if (me.workspaces.length === 0) {
    return <span className="soft">No workspace</span>;
  }
  return (
    <label className="workspace-switch">
      <Boxes size={17} aria-hidden="true" />
      <span className="visually-hidden">Workspace</span>
      <select className="input" value={workspace} onChange={(event) => chooseWorkspace(event.target.value)}>
        {me.workspaces.map((one) => (
          <option key={one.id} value={one.name}>
            {one.name}
          </option>
        ))}
      </select>
    </label>
  );
}

function Balance() {
  const { workspace } = useMe();
  const found = useQuery({
    queryKey: ["workspace", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}", { params: { path: { workspace } } })),
    enabled: workspace !== "",
    refetchInterval: 15_000,
  });
  if (!found.data) {
    return null;
  }
  return (
    <Link className="button quiet balance" href="/money" title="Available for runs now">
      <WalletCards size={17} aria-hidden="true" />
      <span className="number nowrap">
        {roundDollars(found.data.available ?? found.data.balance)} <span className="soft small">available</span>
      </span>
    </Link>
  );
}

const NEXT: Record<Theme, [Theme, LucideIcon, string]> = {
  system: ["light", SunMoon, "system"],
  light: ["dark", Sun, "light"],
  dark: ["system", Moon, "dark"],
};

function ThemeButton() {
  const [next, icon, name] = NEXT[useTheme()];
  return <Button look="quiet" icon={icon} aria-label={`Colours: ${name}`} title={`Colours: ${name}`} onClick={() => chooseTheme(next)} />;
}

function Account() {
  const { me, isOperator, role } = useMe();
  const { signOut } = useSession();
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) {
      return;
    }
    const close = (event: Event) => {
      const isOutside = event instanceof KeyboardEvent ? event.key === "Escape" : !box.current?.contains(event.target as Node);
      if (isOutside) {
        setOpen(false);
      }
    };
    document.addEventListener("pointerdown", close);
    document.addEventListener("keydown", close);
    return () => {
      document.removeEventListener("pointerdown", close);
      document.removeEventListener("keydown", close);
    };
  }, [isOpen]);
  return (
    <div className="account" ref={box}>
      <Button look="quiet" icon={CircleUserRound} aria-label="Account" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} />
      {isOpen && (
        <div className="menu">
          <div className="who">
            <strong>{me.name || me.email || "Signed in"}</strong>
            <div className="small soft">{isOperator ? "Operator" : (role ?? "no role in this workspace")}</div>
          </div>
          <ul>
            <li>
              <Link href="/account" onClick={() => setOpen(false)}>
                <CircleUserRound size={17} aria-hidden="true" /> Your account
              </Link>
            </li>
            <li>
              <button type="button" onClick={() => void signOut()}>
                <LogOut size={17} aria-hidden="true" /> Sign out
              </button>
            </li>
          </ul>
        </div>
      )}
    </div>
  );
}

function ConnectionBanner() {
  const isConnected = useIsConnected();
  return (
    <div role="status">
      {!isConnected && (
        <div className="banner">
          <span className="spinner" aria-hidden="true" /> The connection to the server is lost. The console keeps trying; nothing that you typed is lost.
        </div>
      )}
    </div>
  );
}
