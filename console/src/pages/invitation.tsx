import { useQuery } from "@tanstack/react-query";
import { Check, LogOut } from "lucide-react";
import { useState } from "react";
import { api, documentOf, setCsrfToken } from "../api/client";
import { Fault } from "../api/faults";
import type { components } from "../api/schema";
import { useSession } from "../api/session";
import { Button, Field, Loaded } from "../components/basics";
import { textInput } from "../components/form-dialog";
import { dateTime } from "../format";
import { LoginCard, LoginForm } from "./login";

type Offer = components["schemas"]["OfferShown"];

/** What the link of an invitation leads to: a role in a workspace, for whoever accepts it. */
export function Invitation({ token }: { token: string }) {
  const { leaveInvitation } = useSession();
  const offer = useQuery({
    queryKey: ["invitation", token],
    queryFn: () => documentOf(api.POST("/api/admin/v1/invitations/show", { body: { token } })),
  });
  return (
    <LoginCard>
      <Loaded query={offer}>{(found) => <Accept offer={found} token={token} />}</Loaded>
      <Button look="quiet" onClick={() => void leaveInvitation()}>Not now</Button>
    </LoginCard>
  );
}

function Accept({ offer, token }: { offer: Offer; token: string }) {
  const { state, signOut, leaveInvitation } = useSession();
  const [name, setName] = useState("");
  const [fault, setFault] = useState<Fault | null>(null);
  const [isBusy, setBusy] = useState(false);
  const me = state.kind === "open" ? state.me : null;
  const words = (
    <p>
      {offer.inviter} invites <strong>{offer.email}</strong> to the workspace <strong>{offer.workspace}</strong> as {offer.role}, until {dateTime(offer.expires_at)}.
    </p>
  );
  if (me && me.email !== offer.email) {
    return (
      <div className="stack">
        {words}
        <p className="notice bad" role="alert">You are signed in as {me.email ?? me.name}. Sign out to accept this invitation.</p>
        <Button icon={LogOut} onClick={() => void signOut()}>Sign out</Button>
      </div>
    );
  }
  if (!me && offer.needs_sign_in) {
    return (
      <div className="stack">
        {words}
        <p>You are a member already. Sign in to accept; if that leads to another page, open the link again afterwards.</p>
        <LoginForm />
      </div>
    );
  }
  return (
    <form
      className="stack"
      noValidate
      onSubmit={async (event) => {
        event.preventDefault();
        setBusy(true);
        setFault(null);
        if (!me) {
          setCsrfToken(""); // of a session that has ended
        }
        try {
          await leaveInvitation(await documentOf(api.POST("/api/admin/v1/invitations/accept", { body: { token, name: name || null } })));
        } catch (error) {
          setFault(error instanceof Fault ? error : new Fault(0, String(error)));
          setBusy(false);
        }
      }}
    >
      {words}
      {!me && (
        <Field label="Your name" fault={fault?.fields.name}>
          {(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="name" autoFocus />}
        </Field>
      )}
      {fault && !fault.fields.name && (
        <p className="notice bad" role="alert">
          {fault.message}
        </p>
      )}
      <Button look="primary" type="submit" icon={Check} isBusy={isBusy}>
        Accept
      </Button>
    </form>
  );
}
