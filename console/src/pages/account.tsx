import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { KeyRound, LogOut, Plus, RotateCw } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { useMe, useSession } from "../api/session";
import { Button, Empty, Loaded, PageHead } from "../components/basics";
import { useToasts } from "../components/toasts";
import { ago, dateTime } from "../format";
import { FormDialog } from "../components/form-dialog";
import { RotateKey, TermsOfKey } from "../keys/terms";
import { NewPersonalKey, RevokePersonalKey, mayOf } from "../members/personal-keys";

export function Account() {
  const { me, isOperator } = useMe();
  return (
    <>
      <PageHead title="Your account">
        {[me.name, me.email].filter(Boolean).join(" · ")} {isOperator && <span className="tag good">operator</span>}
      </PageHead>
      <div className="stack wide">
        <Sessions />
        <PersonalKeys />
      </div>
    </>
  );
}

function Sessions() {
  const queries = useQueryClient();
  const { signOut } = useSession();
  const { tell, tellFault } = useToasts();
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: () => documentOf(api.GET("/api/admin/v1/sessions")) });
  const end = useMutation({
    mutationFn: (id: string) => documentOf(api.DELETE("/api/admin/v1/sessions/{session_id}", { params: { path: { session_id: id } } })),
    onSuccess: () => {
      tell("The session has ended.");
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    },
    onError: tellFault,
  });
  const [isAsked, setAsked] = useState(false);
  return (
    <section className="stack" aria-label="Sessions">
      <div className="row spread">
        <div>
          <h2>Sessions</h2>
          <p className="soft small">Where you are signed in. A session ends after twelve hours, or after one hour without use.</p>
        </div>
        <Button look="danger" icon={LogOut} onClick={() => setAsked(true)}>
          Sign out everywhere
        </Button>
      </div>
      {isAsked && (
        <FormDialog title="Sign out everywhere?" action="Sign out everywhere" isDangerous onClose={() => setAsked(false)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/members/{member_id}/sessions", { params: { path: { member_id: "me" } } });
            await signOut();
          }}>
          {() => <p>Every session of yours ends, also this one, and every personal key is revoked that was created in a session, here or elsewhere. You cannot undo this.</p>}
        </FormDialog>
      )}
      <Loaded query={sessions}>
        {({ items }) => (
          <div className="table-box">
            <table className="table cards">
              <thead>
                <tr>
                  <th scope="col">Browser</th>
                  <th scope="col">Address</th>
                  <th scope="col">Started</th>
                  <th scope="col">Last used</th>
                  <th scope="col"><span className="visually-hidden">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                {items.map((one) => (
                  <tr key={one.id}>
                    <td data-label="Browser">
                      <span>{browserOf(one.agent)} {one.is_current && <span className="tag accent">this session</span>}</span>
                    </td>
                    <td data-label="Address">{one.address ?? "–"}</td>
                    <td data-label="Started">{dateTime(one.created_at)}</td>
                    <td data-label="Last used">{ago(one.seen_at)}</td>
                    <td className="end">
                      <Button size="small" icon={LogOut} isBusy={end.isPending && end.variables === one.id} onClick={() => (one.is_current ? void signOut() : end.mutate(one.id))}>
                        {one.is_current ? "Sign out" : "End"}
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loaded>
    </section>
  );
}

function PersonalKeys() {
  const queries = useQueryClient();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "rotate" | "revoke"; id: string; name: string } | null>(null);
  const member = useQuery({ queryKey: ["member", "me"], queryFn: () => documentOf(api.GET("/api/admin/v1/members/{member_id}", { params: { path: { member_id: "me" } } })) });
  const again = () => queries.invalidateQueries({ queryKey: ["member", "me"] });
  const make = (
    <Button icon={Plus} onClick={() => setAsked({ kind: "new" })}>
      Create a personal key
    </Button>
  );
  return (
    <section className="stack" aria-label="Personal keys">
      <div className="row spread">
        <div>
          <h2>Personal keys</h2>
          <p className="soft small">You sign in and call the administration API with them. A key is shown only once.</p>
        </div>
        {make}
      </div>
      <Loaded query={member}>
        {({ keys }) =>
          keys.length === 0 ? (
            <Empty icon={KeyRound} action={make}>You have no personal key.</Empty>
          ) : (
            <div className="table-box">
              <table className="table cards">
                <thead>
                  <tr>
                    <th scope="col">Label</th>
                    <th scope="col">Key</th>
                    <th scope="col">May</th>
                    <th scope="col">Created</th>
                    <th scope="col"><span className="visually-hidden">Actions</span></th>
                  </tr>
                </thead>
                <tbody>
                  {keys.map((one) => (
                    <tr key={one.id}>
                      <td data-label="Label">{one.label || "–"}</td>
                      <td data-label="Key"><code>{one.hint}</code></td>
                      <td data-label="May">{mayOf(one)}</td>
                      <td data-label="Created"><TermsOfKey terms={one} /></td>
                      <td className="end">
                        <Button size="small" look="quiet" icon={RotateCw} aria-label={`Rotate ${one.label || one.hint}`} title="Rotate" onClick={() => setAsked({ kind: "rotate", id: one.id, name: one.label || one.hint })} />
                        <Button size="small" look="danger" aria-label={`Revoke ${one.label || one.hint}`} onClick={() => setAsked({ kind: "revoke", id: one.id, name: one.label || one.hint })}>
                          Revoke
                        </Button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {asked?.kind === "new" && <NewPersonalKey member="me" title="Create a personal key" onClose={() => void again().then(() => setAsked(null))} />}
      {asked?.kind === "rotate" && (
        <RotateKey name={asked.name} onClose={() => void again().then(() => setAsked(null))}
          rotate={async (overlap_hours) =>
            (await documentOf(api.POST("/api/admin/v1/members/{member_id}/keys/{key_id}/rotate", { params: { path: { member_id: "me", key_id: asked.id } }, body: { overlap_hours } }))).secret
          }
        />
      )}
      {asked?.kind === "revoke" && <RevokePersonalKey member="me" id={asked.id} name={asked.name} onClose={() => setAsked(null)} onDone={again} />}
    </section>
  );
}

const BROWSERS = ["Firefox", "Edg", "Chrome", "Safari"] as const;

function browserOf(agent: string | null): string {
  const found = BROWSERS.find((one) => agent?.includes(one));
  return found === "Edg" ? "Edge" : (found ?? agent?.slice(0, 60) ?? "Unknown");
}
