import { useQuery } from "@tanstack/react-query";
import { LogIn } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Fault } from "../api/faults";
import { useSession } from "../api/session";
import { Button, Dialog, Field } from "../components/basics";

/** The page of who is not signed in. */
export function Login() {
  return (
    <main className="login">
      <div className="login-card stack wide">
        <h1 className="brand">
          <img src="/console/icon.svg" alt="" />
          Fairlead
        </h1>
        <LoginForm />
      </div>
    </main>
  );
}

/** Asks for the key again over a page whose session has ended; what was typed there stays. */
export function LoginDialog() {
  return (
    <Dialog title="Your session has ended" onClose={() => undefined} canClose={false}>
      <div className="stack">
        <p>It was ended, it expired, or its key was revoked. Sign in again to go on where you were.</p>
        <LoginForm />
      </div>
    </Dialog>
  );
}

function LoginForm() {
  const { signIn } = useSession();
  const [key, setKey] = useState("");
  const [fault, setFault] = useState("");
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
          setFault(error instanceof Fault ? error.message : "Something went wrong in the console.");
          setBusy(false);
        }
      }}
    >
      <Field label="Personal key" hint="It begins with flp_. The server printed the first one when it was started for the first time." fault={fault}>
        {(control) => (
          <input {...control} className="input code" type="password" autoComplete="current-password" required autoFocus value={key} onChange={(event) => setKey(event.target.value)} />
        )}
      </Field>
      <Button look="primary" type="submit" icon={LogIn} isBusy={isBusy}>
        Sign in
      </Button>
      {oidc && (
        <a className="button" href={`${oidc.start_url}?return_to=${encodeURIComponent(location.pathname)}`}>
          Sign in with {oidc.name}
        </a>
      )}
    </form>
  );
}
