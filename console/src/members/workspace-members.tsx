import { useQueryClient } from "@tanstack/react-query";
import { Trash2, UserPlus, Users } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";

type Member = components["schemas"]["WorkspaceMemberShown"];
type GrantableRole = components["schemas"]["RoleChange"]["role"];

const ROLES: readonly (readonly [GrantableRole, string])[] = [
  ["owner", "Owner: runs models, and manages keys, budgets and members"],
  ["member", "Member: runs models and workflows"],
  ["viewer", "Viewer: sees everything, and runs nothing"],
];

/** The people of the chosen workspace and their roles. */
export function WorkspaceMembers() {
  const { workspace, mayChange, me } = useMe();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const [asked, setAsked] = useState<{ kind: "invite" } | { kind: "remove"; member: Member } | null>(null);
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
      Invite a person
    </Button>
  );
  return (
    <>
      <Loaded query={list.query}>
        {() =>
          list.rows.length === 0 ? (
            <Empty icon={Users} action={invite || <Button onClick={() => void list.query.refetch()}>Refresh</Button>}>
              This workspace has no members yet. Operators have access to every workspace.
            </Empty>
          ) : (
            <div className="stack">
              <div className="row end">{invite}</div>
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
                          <span><strong>{one.name}</strong> {one.id === me.id && <span className="tag accent">you</span>}</span>
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
                          {mayChange && <Button size="small" look="quiet" icon={Trash2} aria-label={`Remove ${one.name}`} title="Remove" onClick={() => setAsked({ kind: "remove", member: one })} />}
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
      {asked?.kind === "remove" && (
        <FormDialog title={`Remove ${asked.member.name}?`} action="Remove" isDangerous onClose={() => setAsked(null)}
          onSubmit={async () => {
            await api.DELETE("/api/admin/v1/workspaces/{workspace}/members/{member_id}", { params: { path: { workspace, member_id: asked.member.id } } });
            tell(`${asked.member.name} was removed.`);
            await again();
          }}>
          {() => <p>{asked.member.name} loses the role in {workspace} at once. Runs and files stay.</p>}
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
    <FormDialog title="Invite a person" action="Invite" onClose={onClose} fields={["name", "email", "role"]}
      onSubmit={async () => {
        const invited = await documentOf(api.POST("/api/admin/v1/workspaces/{workspace}/members", { params: { path: { workspace } }, body: { name, email, role } }));
        tell(`${invited.member.name} is now ${invited.member.role} of ${workspace}.`);
        return invited.key?.secret;
      }}>
      {(faults) => (
        <>
          <Field label="Name" fault={faults.name}>{(control) => <input {...control} {...textInput({ value: name, onChange: setName })} autoComplete="off" />}</Field>
          <Field label="E-mail" fault={faults.email} hint="A person who is new here also gets a personal key, which you hand over.">
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
