import { useQuery, useQueryClient } from "@tanstack/react-query";
import { KeyRound, Pencil, Trash2, UserPlus } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Dialog, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { ago, date } from "../format";
import { TermsOfKey } from "../keys/terms";
import { NewPersonalKey, RevokePersonalKey, mayOf } from "./personal-keys";
import { Unproven } from "./unproven";

type Member = components["schemas"]["MemberShown"];
type Asked = { kind: "new" } | { kind: "change" | "delete" | "keys"; member: Member };

/** Everybody of the installation, for operators. */
export function Everybody() {
  const { me } = useMe();
  const queries = useQueryClient();
  const { tell } = useToasts();
  const [asked, setAsked] = useState<Asked | null>(null);
  const [unproven, setUnproven] = useState(false);
  const list = usePages(["everybody", unproven], (cursor) => documentOf(api.GET("/api/admin/v1/members", { params: { query: { cursor, unproven } } })));
  const again = () => Promise.all([queries.invalidateQueries({ queryKey: ["everybody"] }), queries.invalidateQueries({ queryKey: ["members"] })]);
  const close = () => setAsked(null);
  const add = (
    <Button look="primary" icon={UserPlus} onClick={() => setAsked({ kind: "new" })}>
      Add a member
    </Button>
  );
  return (
    <>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 && !unproven ? (
            <Empty action={add}>There is no member yet.</Empty>
          ) : (
            <div className="stack">
              <div className="row spread">
                <label className="check">
                  <input type="checkbox" checked={unproven} onChange={(event) => setUnproven(event.target.checked)} /> Only addresses that nobody has proven
                </label>
                {add}
              </div>
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Name</th>
                      <th scope="col">E-mail</th>
                      <th scope="col">Workspaces</th>
                      <th scope="col">Added</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {list.rows.map((one) => (
                      <tr key={one.id}>
                        <td data-label="Name">
                          <span className="row">
                            <strong>{one.name}</strong>
                            {one.id === me.id && <span className="tag accent">you</span>}
                            {one.is_operator && <span className="tag good">operator</span>}
                            {one.has_single_sign_on && <span className="tag">single sign-on</span>}
                            {one.is_unproven && <span className="tag">unproven</span>}
                          </span>
                        </td>
                        <td data-label="E-mail">{one.email ?? "–"}</td>
                        <td data-label="Workspaces">{one.is_operator ? "all" : one.workspaces.map(({ name, role }) => `${name} (${role})`).join(", ") || "none"}</td>
                        <td data-label="Added">{date(one.created_at)}</td>
                        <td className="end">
                          <div className="row end">
                            <Button size="small" icon={KeyRound} aria-label={`Keys of ${one.name}`} onClick={() => setAsked({ kind: "keys", member: one })}>Keys</Button>
                            <Button size="small" look="quiet" icon={Pencil} aria-label={`Change ${one.name}`} title="Change" onClick={() => setAsked({ kind: "change", member: one })} />
                            <Button size="small" look="quiet" icon={Trash2} aria-label={`Delete ${one.name}`} title="Delete" onClick={() => setAsked({ kind: "delete", member: one })} />
                          </div>
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
            </div>
          )
        }
      </Loaded>
      {asked?.kind === "new" && <MemberForm onClose={close} onDone={again} />}
      {asked?.kind === "change" && <MemberForm member={asked.member} onClose={close} onDone={again} />}
      {asked?.kind === "keys" && <MemberKeys member={asked.member} onClose={close} />}
      {asked?.kind === "delete" && (
        <FormDialog title={`Delete ${asked.member.name}?`} action="Delete" isDangerous onClose={close}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/members/{member_id}", { params: { path: { member_id: asked.member.id } } });
            tell(`${asked.member.name} was deleted.`);
            await again();
          }}>
          {() => <p>Deletes the member with all roles, personal keys and sessions. Runs and the audit log stay. You cannot undo this.</p>}
        </FormDialog>
      )}
    </>
  );
}

function MemberForm({ member, onClose, onDone }: { member?: Member; onClose: () => void; onDone: () => Promise<unknown> }) {
  const [name, setName] = useState(member?.name ?? "");
  const [email, setEmail] = useState(member?.email ?? "");
  const [isOperator, setOperator] = useState(member?.is_operator ?? false);
  const [unproven, setUnproven] = useState(false);
  return (
    <FormDialog title={member ? `Change ${member.name}` : "Add a member"} action={member ? "Save" : "Add"} onClose={onClose} fields={["name", "email", "is_operator", "unproven"]}
      onSubmit={async () => {
        if (member) {
          await api.PATCH("/api/admin/v1/members/{member_id}", { params: { path: { member_id: member.id } }, body: { name, ...(email && { email }), is_operator: isOperator, unproven } });
        } else {
          await api.POST("/api/admin/v1/members", { body: { name, email, is_operator: isOperator, unproven } });
        }
        await onDone();
      }}>
      {(faults) => (
        <>
          <Field label="Name" fault={faults.name}>{(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="off" />}</Field>
          <Field label="E-mail" fault={faults.email}>{(control) => <input {...control} {...textInput({ value: email, onChange: setEmail })} type="email" autoComplete="off" />}</Field>
          <label className="check">
            <input type="checkbox" checked={isOperator} onChange={(event) => setOperator(event.target.checked)} /> Operator: has every right in every workspace
          </label>
          {faults.is_operator && <p className="fault" role="alert">{faults.is_operator}</p>}
          <Unproven fault={faults.unproven} value={unproven} onChange={setUnproven} />
        </>
      )}
    </FormDialog>
  );
}

function MemberKeys({ member, onClose }: { member: Member; onClose: () => void }) {
  const queries = useQueryClient();
  const [asked, setAsked] = useState<{ kind: "new" } | { kind: "revoke"; id: string; name: string } | null>(null);
  const found = useQuery({ queryKey: ["member", member.id], queryFn: () => documentOf(api.GET("/api/admin/v1/members/{member_id}", { params: { path: { member_id: member.id } } })) });
  const { tell, tellFault } = useToasts();
  const sessions = useQuery({ queryKey: ["member", member.id, "sessions"], queryFn: () => documentOf(api.GET("/api/admin/v1/members/{member_id}/sessions", { params: { path: { member_id: member.id } } })) });
  const again = () => queries.invalidateQueries({ queryKey: ["member"] });
  const signOut = () => void api.DELETE("/api/admin/v1/members/{member_id}/sessions", { params: { path: { member_id: member.id } } }).then(() => tell(`${member.name} is signed out everywhere.`), tellFault).finally(again);
  if (asked?.kind === "new") {
    return <NewPersonalKey member={member.id} title={`Create a personal key for ${member.name}`} onClose={() => void again().then(() => setAsked(null))} />;
  }
  if (asked?.kind === "revoke") {
    return <RevokePersonalKey member={member.id} id={asked.id} name={asked.name} onClose={() => setAsked(null)} onDone={again} />;
  }
  return (
    <Dialog title={`Personal keys of ${member.name}`} onClose={onClose}>
      <div className="stack">
        <Loaded query={found}>
          {({ keys }) =>
            keys.length === 0 ? (
              <p className="soft">No personal key.</p>
            ) : (
              <ul className="stack tight">
                {keys.map((one) => (
                  <li className="row spread" key={one.id}>
                    <span>
                      {one.label || "No label"} <code>{one.hint}</code> <span className="small soft">{mayOf(one)}</span>
                      <TermsOfKey terms={one} />
                    </span>
                    <Button size="small" look="danger" onClick={() => setAsked({ kind: "revoke", id: one.id, name: one.label || one.hint })}>
                      Revoke
                    </Button>
                  </li>
                ))}
              </ul>
            )
          }
        </Loaded>
        {sessions.data && sessions.data.items.length > 0 && (
          <div className="row spread">
            <span className="soft">{sessions.data.items.length === 1 ? "Signed in once" : `Signed in ${sessions.data.items.length} times`}, last used {ago(sessions.data.items.map((one) => one.seen_at).sort().at(-1)!)}</span>
            <Button size="small" look="danger" onClick={signOut}>Sign out everywhere</Button>
          </div>
        )}
        <div className="row end">
          <Button icon={KeyRound} onClick={() => setAsked({ kind: "new" })}>Create a key</Button>
          <Button look="primary" onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
