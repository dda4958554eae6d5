import { type ComponentType, Suspense, lazy } from "react";
import { Building2, Compass } from "lucide-react";
import { Link, Redirect, Route, Router, Switch, useLocation } from "wouter";
import { useMe, useSession } from "./api/session";
import { Button, Empty, FaultNotice, Loading } from "./components/basics";
import { Invitation } from "./pages/invitation";
import { Login, LoginDialog } from "./pages/login";
import { Shell } from "./shell";

/** Each page is a file of its own, loaded when it is first opened. */
const page = (load: () => Promise<Record<string, ComponentType<any>>>, name: string) =>
  lazy(async () => ({ default: (await load())[name]! }));

const PAGES: readonly (readonly [string, ComponentType<any>])[] = [
  ["/explore", page(() => import("./pages/explore"), "Explore")],
  ["/models/:provider/:model", page(() => import("./pages/model"), "ModelPage")],
  ["/workflows", page(() => import("./pages/workflows"), "Workflows")],
  ["/runs", page(() => import("./pages/runs"), "Runs")],
  ["/runs/:id", page(() => import("./pages/run"), "RunPage")],
  ["/money", page(() => import("./pages/money"), "Money")],
  ["/jobs", page(() => import("./pages/jobs"), "Jobs")],
  ["/jobs/:id", page(() => import("./pages/job"), "JobPage")],
  ["/keys", page(() => import("./pages/keys"), "Keys")],
  ["/members", page(() => import("./pages/members"), "Members")],
  ["/deployments", page(() => import("./pages/deployments"), "Deployments")],
  ["/deployments/:id", page(() => import("./pages/deployment"), "DeploymentPage")],
  ["/workspaces", page(() => import("./pages/workspaces"), "Workspaces")],
  ["/workspaces/:name", page(() => import("./pages/workspace"), "WorkspacePage")],
  ["/registry", page(() => import("./pages/registry"), "Registry")],
  ["/providers", page(() => import("./pages/providers"), "Providers")],
  ["/settings", page(() => import("./pages/settings"), "Settings")],
  ["/audit-log", page(() => import("./pages/audit-log"), "AuditLog")],
  ["/account", page(() => import("./pages/account"), "Account")],
];

export function App() {
  const { state, retry, invitation } = useSession();
  if (invitation !== null && state.kind !== "unknown") {
    return <Invitation token={invitation} />;
  }
  switch (state.kind) {
    case "unknown":
      return <Loading />;
    case "failed":
      return (
        <main className="login">
          <div className="login-card">
            <FaultNotice error={state.fault} retry={retry} />
          </div>
        </main>
      );
    case "none":
      return <Login />;
    default:
      return (
        <Router base="/console">
          <Shell>
            <Suspense fallback={<Loading />}>
              <Pages />
            </Suspense>
          </Shell>
          {state.kind === "ended" && <LoginDialog />}
        </Router>
      );
  }
}

/** Pages that make sense for somebody who belongs to no workspace. */
const WITHOUT_WORKSPACE = /^\/(account|workspaces|members|providers|registry|settings|audit-log)(\/|$)/;

function Pages() {
  const { workspace, isOperator } = useMe();
  const { retry } = useSession();
  const [location] = useLocation();
  if (workspace === "" && !(WITHOUT_WORKSPACE.test(location) && (isOperator || location === "/account"))) {
    return isOperator ? (
      <Empty icon={Building2} action={<Link className="button primary" href="/workspaces">Go to Workspaces</Link>}>There is no workspace yet. Create one to run models.</Empty>
    ) : (
      <Empty icon={Building2} action={<Button onClick={retry}>Check again</Button>}>You do not belong to a workspace yet. An owner of one can invite you.</Empty>
    );
  }
  return (
    <Switch>
      {PAGES.map(([path, Page]) => (
        <Route key={path} path={path} component={Page} />
      ))}
      <Route path="/">
        <Redirect to="/explore" replace />
      </Route>
      <Route>
        <Empty icon={Compass} action={<Link className="button primary" href="/explore">Go to Explore</Link>}>There is no page at this address.</Empty>
      </Route>
    </Switch>
  );
}
