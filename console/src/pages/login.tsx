import { useQuery } from "@tanstack/react-query";
import { LogIn } from "lucide-react";
import { type ReactNode, useState } from "react";
import { api, documentOf } from "../api/client";
import { Fault } from "../api/faults";
import { useSession } from "../api/session";
import { Button, Dialog, Field } from "../components/basics";

/** What the server says when a sign-in at the OpenID Connect provider did not succeed, in its `sign_in_error`. */
const REFUSALS: Record<string, string> = {
  not_in_group: "You are not in the group whose members may use this service. Ask its operator.",
  unknown_member: "Nobody here has the e-mail address that you signed in with. Ask an owner to invite it.",
  cancelled: "The sign-in was cancelled.",
  expired: "The sign-in took too long. Try again.",
  unavailable: "The sign-in service cannot be reached. Try again, or use a personal key.",
};

/** Why the browser came back without a session; empty where it did not come from there. */
function refusalOf(): string {
  const search = new URLSearchParams(location.search);
  const code = search.get("sign_in_error");
  if (!code) {
    return "";
  }
  search.delete("sign_in_error"); // loading the page again starts without it
  history.replaceState(null, "", [location.pathname, search.toString()].filter(Boolean).join("?"));
  return REFUSALS[code] ?? "The sign-in did not succeed. Try again.";
}

/** The page for people who are not signed in. */
export function Login() {
  return (
    <LoginCard>
      <LoginForm />
    </LoginCard>
  );
}

/** The frame of what is shown to people who are not signed in. */
export function LoginCard({ children }: { children: ReactNode }) {
  return (
    <main className="login">
      <div className="login-card stack wide">
        <h1 className="brand">
          <img src="/console/icon.svg" alt="" />
          Fairlead
        </h1>
        {children}
      </div>
    </main>
  );
}

/** Asks for the key again over a page whose session has ended; what was typed there stays. */
export function LoginDialog() {
  return (
    <Dialog title="Your session has ended" onClose={() => undefined} canClose={false}>
      <div className="stack">
        <p>It expired, somebody ended it, or its key was revoked. Sign in again to continue; nothing that you typed is lost.</p>
        <LoginForm />
      </div>
    </Dialog>
  );
}

export function LoginForm() {
  const { signIn } = useSession();
  const [key, setKey] = useState("");
  const [fault, setFault] = useState("");
  const [refusal] = useState(refusalOf);
  const [isBusy, setBusy] = useState(false);
  const methods = useQuery({
    queryKey: ["login-methods"],
    queryFn: () => documentOf(api.GET("/api/admin/v1/login-methods")),
    staleTime: Infinity,
  });
  const oidc = methods.data?.oidc;
  return (
    <form
      className="stack"
      onSubmit={async (event) => {
        event.preventDefault();
        setBusy(true);
        setFault("");
        try {
          await signIn(key.trim());
        } catch (error) {
          setFault(error instanceof Fault ? error.message : "Something went wrong in the console. Reload the page.");
          setBusy(false);
        }
      }}
    >
      {refusal && !fault && (
        <p className="notice bad" role="alert">
          {refusal}
        </p>
      )}
      {methods.data?.key !== false && (
        <>
          <Field label="Personal key" hint="It begins with flp_. The server printed the first one at its first start, and saved it as first-operator-key in its data directory." fault={fault}>
            {(control) => (
              <input {...control} className="input code" type="password" autoComplete="current-password" required autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
            )}
          </Field>
          <Button look="primary" type="submit" icon={LogIn} isBusy={isBusy}>
            Sign in
          </Button>
        </>
      )}
      {oidc && (
        <a className={methods.data?.key === false ? "button primary" : "button"} href={`${oidc.start_url}?return_to=${encodeURIComponent(location.pathname + location.search)}`}>
          Sign in with {oidc.name}
        </a>
      )}
    </form>
  );
}
