import { useQueryClient } from "@tanstack/react-query";
import { Trash2, UserPlus, Users } from "lucide-react";
import { useState } from "react";
import { api, documentOf } from "../api/client";
import { Fault } from "../api/faults";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { useMe } from "../api/session";
import { Button, Empty, Field, Loaded } from "../components/basics";
import { FormDialog, textInput } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { dateTime } from "../format";

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
  const [asked, setAsked] = useState<{ kind: "invite" } | { kind: "remove"; member: Member } | { kind: "unproven"; member: Member; role: GrantableRole } | null>(null);
  const list = usePages(["members", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/members", { params: { path: { workspace }, query: { cursor } } })),
  );
  const again = () => queries.invalidateQueries({ queryKey: ["members"] });
  const change = (member: Member, role: GrantableRole, unproven = false) =>
    documentOf(api.PATCH("/api/admin/v1/workspaces/{workspace}/members/{member_id}", { params: { path: { workspace, member_id: member.id } }, body: { role, unproven } }))
      .then(() => tell(`${member.name} is now ${role}.`))
      .finally(again);
  const choose = (member: Member, role: GrantableRole) =>
    change(member, role).catch((error: unknown) => (error instanceof Fault && error.fields.unproven ? setAsked({ kind: "unproven", member, role }) : tellFault(error)));
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
                          <span><strong>{one.name}</strong> {one.id === me.id && <span className="tag accent">you</span>} {one.is_unproven && <span className="tag">unproven</span>}</span>
                        </td>
                        <td data-label="E-mail">{one.email ?? "–"}</td>
                        <td data-label="Role">
                          {mayChange && one.role !== "operator" ? (
                            <select className="input" aria-label={`Role of ${one.name}`} value={one.role} onChange={(event) => void choose(one, event.target.value as GrantableRole)}>
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
      {mayChange && <OpenInvitations />}
      {asked?.kind === "invite" && <Invite onClose={() => void queries.invalidateQueries({ queryKey: ["invitations"] }).then(() => setAsked(null))} />}
      {asked?.kind === "unproven" && (
        <FormDialog title={`Make ${asked.member.name} ${asked.role}?`} action="Do it all the same" isDangerous onClose={() => setAsked(null)} onSubmit={() => change(asked.member, asked.role, true)}>
          {() => <p>Nobody has proven to hold the e-mail address {asked.member.email}. Whoever has its link or a key of the member gets this role, also if that is somebody else.</p>}
        </FormDialog>
      )}
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

/** Who was invited and has not accepted yet. */
function OpenInvitations() {
  const { workspace } = useMe();
  const queries = useQueryClient();
  const { tell, tellFault } = useToasts();
  const list = usePages(["invitations", workspace], (cursor) =>
    documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/invitations", { params: { path: { workspace }, query: { cursor } } })),
  );
  const withdraw = (id: string, email: string) =>
    documentOf(api.DELETE("/api/admin/v1/workspaces/{workspace}/invitations/{invitation_id}", { params: { path: { workspace, invitation_id: id } } }))
      .then(() => tell(`The invitation of ${email} was withdrawn.`), tellFault)
      .finally(() => queries.invalidateQueries({ queryKey: ["invitations"] }));
  return (
    list.rows.length > 0 && (
      <section className="stack" aria-label="Invitations">
        <h2>Invitations</h2>
        <div className="table-box">
          <table className="table cards">
            <thead>
              <tr>
                <th scope="col">E-mail</th>
                <th scope="col">Role</th>
                <th scope="col">Invited by</th>
                <th scope="col">Expires</th>
                <th scope="col"><span className="visually-hidden">Actions</span></th>
              </tr>
            </thead>
            <tbody>
              {list.rows.map((one) => (
                <tr key={one.id}>
                  <td data-label="E-mail">{one.email} {one.is_mailed && <span className="tag">mailed</span>}</td>
                  <td data-label="Role"><span className="tag">{one.role}</span></td>
                  <td data-label="Invited by">{one.inviter}</td>
                  <td data-label="Expires">{dateTime(one.expires_at)}</td>
                  <td className="end">
                    <Button size="small" aria-label={`Withdraw the invitation of ${one.email}`} onClick={() => void withdraw(one.id, one.email)}>Withdraw</Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {list.hasMore && <Button isBusy={list.isLoadingMore} onClick={list.more}>Show more</Button>}
      </section>
    )
  );
}

function Invite({ onClose }: { onClose: () => void }) {
  const { workspace } = useMe();
  const { tell } = useToasts();
  const [email, setEmail] = useState("");
  const [role, setRole] = useState<GrantableRole>("member");
  const [byHand, setByHand] = useState(false);
  return (
    <FormDialog title="Invite a person" action="Invite" onClose={onClose} fields={["email", "role"]}
      onSubmit={async () => {
        const { link } = await documentOf(api.POST("/api/admin/v1/workspaces/{workspace}/invitations", { params: { path: { workspace } }, body: { email, role, by_hand: byHand } }));
        tell(link === null ? `The invitation was mailed to ${email}.` : `Pass the link on to ${email}.`);
        return link;
      }}>
      {(faults) => (
        <>
          <Field label="E-mail" fault={faults.email} hint="The person gets the role by opening a link and accepting. It is mailed where this server can send e-mail; otherwise you pass it on.">
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
          <label className="check">
            <input type="checkbox" checked={byHand} onChange={(event) => setByHand(event.target.checked)} /> Show me the link instead of mailing it: it then proves no address
          </label>
        </>
      )}
    </FormDialog>
  );
}
