import { useQueryClient } from "@tanstack/react-query";
import { KeyRound, Trash2, UserPlus, Users } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded, PageHead } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";

type Member = components["schemas"]["WorkspaceMemberShown"];
type GrantableRole = components["schemas"]["RoleChange"]["role"];

const ROLES: readonly (readonly [GrantableRole, string])[] = [
  ["owner", "Owner: runs, and manages keys, budgets and members"],
  ["member", "Member: runs models and workflows"],
  ["viewer", "Viewer: looks, and runs nothing"],
];

export function Members() {
  const { workspace, mayChange, isOperator, me } = useMe();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [asked, setAsked] = useState<{ kind: "invite" } | { kind: "remove" | "key"; member: Member } | null>(null);
  const list = usePages(["members", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/members", { params: { path: { workspace }, query: { cursor } } })),
  );
  const again = () => queries.invalidateQueries({ queryKey: ["members"] });
  const change = (member: Member, role: GrantableRole) =>
    documentOf(api.PATCH("/api/admin/v1/workspaces/{workspace}/members/{member_id}", { params: { path: { workspace, member_id: member.id } }, body: { role } }))
      .then(() => tell(`${member.name} is now ${role}.`), tellFault)
      .finally(again);
  const invite = mayChange && (
    <Button look="primary" icon={UserPlus} onClick={() => setAsked({ kind: "invite" })}>
      Invite somebody
    </Button>
  );
  return (
    <>
      <PageHead title="Members" actions={invite}>
        The people of the workspace {workspace}, and what each may do in it.
      </PageHead>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={Users} action={invite || <Button onClick={() => void list.query.refetch()}>Look again</Button>}>
              Nobody has a role in this workspace yet; operators see it all the same.
            </Empty>
          ) : (
            <div className="stack">
              <div className="table-box">
                <table className="table cards">
                  <thead>
                    <tr>
                      <th scope="col">Name</th>
                      <th scope="col">E-mail</th>
                      <th scope="col">Role</th>
                      <th scope="col"><span className="visually-hidden">Actions</span></th>
                    </tr>
                  </thead>
                  <tbody>
                    {list.rows.map((one) => (
                      <tr key={one.id}>
                        <td data-label="Name">
                          <span>{one.name} {one.id === me.id && <span className="tag accent">you</span>}</span>
                        </td>
                        <td data-label="E-mail">{one.email ?? "–"}</td>
                        <td data-label="Role">
                          {mayChange && one.role !== "operator" ? (
                            <select className="input" aria-label={`Role of ${one.name}`} value={one.role} onChange={(event) => void change(one, event.target.value as GrantableRole)}>
                              {ROLES.map(([role]) => (
                                <option key={role}>{role}</option>
                              ))}
                            </select>
                          ) : (
                            <span className="tag">{one.role}</span>
                          )}
                        </td>
                        <td className="end">
                          <div className="row end">
                            {isOperator && (
                              <Button size="small" icon={KeyRound} onClick={() => setAsked({ kind: "key", member: one })}>
                                New key
                              </Button>
                            )}
                            {mayChange && (
                              <Button size="small" look="quiet" icon={Trash2} aria-label={`Remove ${one.name}`} onClick={() => setAsked({ kind: "remove", member: one })} />
                            )}
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
      {asked?.kind === "invite" && <Invite onClose={() => void again().then(() => setAsked(null))} />}
      {asked?.kind === "key" && <NewKey member={asked.member} onClose={() => setAsked(null)} />}
      {asked?.kind === "remove" && (
        <FormDialog title={`Remove ${asked.member.name}?`} action="Remove" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}/members/{member_id}", { params: { path: { workspace, member_id: asked.member.id } } });
            tell(`${asked.member.name} has no role here any more.`);
            await again();
          }}>
          {() => <p>They lose their role in the workspace {workspace} at once. What they made stays.</p>}
        </FormDialog>
      )}
    </>
  );
}

function Invite({ onClose }: { onClose: () => void }) {
  const { workspace } = useMe();
  const { tell } = useToasts();
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<GrantableRole>("member");
  return (
    <FormDialog title="Invite somebody" action="Invite" onClose={onClose} fields={["name", "email", "role"]}
      onSubmit={async () => {
        const made = await documentOf(api.POST("/api/admin/v1/workspaces/{workspace}/members", { params: { path: { workspace } }, body: { name, email, role } }));
        tell(`${made.member.name} is ${made.member.role} of ${workspace} now.`);
        return made.key?.secret;
      }}>
      {(faults) => (
        <>
          <Field label="Name" fault={faults.name}>{(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="off" />}</Field>
          <Field label="E-mail" fault={faults.email} hint="Who is a member already gets the role; anybody else gets a personal key, which is shown once.">
            {(control) => <input {...control} {...textInput({ value: email, onChange: setEmail })} type="email" autoComplete="off" />}
          </Field>
          <Field label="Role" fault={faults.role}>
            {(control) => (
              <select {...control} className="input" value={role} onChange={(event) => setRole(event.target.value as GrantableRole)}>
                {ROLES.map(([one, title]) => (
                  <option key={one} value={one}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}

function NewKey({ member, onClose }: { member: Member; onClose: () => void }) {
  const [label, setLabel] = useState("");
  return (
    <FormDialog title={`A new personal key for ${member.name}`} action="Make the key" onClose={onClose} fields={["label"]}
      onSubmit={async () => (await documentOf(api.POST("/api/admin/v1/members/{member_id}/keys", { params: { path: { member_id: member.id } }, body: { label } }))).secret}>
      {(faults) => (
        <Field label="Label" hint="Where it is used, such as: laptop." fault={faults.label}>
          {(control) => <input {...control} {...textInput({ value: label, onChange: setLabel })} autoComplete="off" />}
        </Field>
      )}
    </FormDialog>
  );
}
