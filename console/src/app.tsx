import { type ComponentType, Suspense, lazy } from "react";
import { Redirect, Route, Router, Switch } from "wouter";
import { useSession } from "./api/session";
import { Empty, FaultNotice, Loading } from "./components/basics";
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
  ["/workspaces", page(() => import("./pages/workspaces"), "Workspaces")],
  ["/members", page(() => import("./pages/members"), "Members")],
  ["/providers", page(() => import("./pages/providers"), "Providers")],
  ["/settings", page(() => import("./pages/settings"), "Settings")],
  ["/audit-log", page(() => import("./pages/audit-log"), "AuditLog")],
  ["/sessions", page(() => import("./pages/sessions"), "Sessions")],
];

export function App() {
  const { state, retry } = useSession();
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
              <Switch>
                {PAGES.map(([path, Page]) => (
                  <Route key={path} path={path} component={Page} />
                ))}
                <Route path="/">
                  <Redirect to="/explore" replace />
                </Route>
                <Route>
                  <Empty action={<a className="button primary" href="/console/explore">Go to Explore</a>}>There is no page at this address.</Empty>
                </Route>
              </Switch>
            </Suspense>
          </Shell>
          {state.kind === "ended" && <LoginDialog />}
        </Router>
      );
  }
}
