import { useQuery } from "@tanstack/react-query";
import { Copy, Pencil, RotateCw } from "lucide-react";
import { useState } from "react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { useMe } from "../api/session";
import { copyText } from "../browser";
import { Button, Loaded } from "../components/basics";
import { FormDialog } from "../components/form-dialog";
import { useToasts } from "../components/toasts";
import { WorkspaceOverview } from "../workspaces/overview";

/** The limits and rights of the chosen workspace, and the secret of its webhooks. */
export function WorkspaceSettings() {
  const { workspace, isOperator, mayChange } = useMe();
  const found = useQuery({
    queryKey: ["workspace", workspace],
    queryFn: () => documentOf(api.GET("/api/admin/v1/workspaces/{workspace}", { params: { path: { workspace } } })),
  });
  return (
    <div className="stack wide">
      <div className="row spread">
        <p className="soft small">{isOperator ? "Limits and rights of this workspace." : "Operators set the limits and rights of a workspace."}</p>
        {isOperator && (
          <Link className="button" href={`/workspaces/${encodeURIComponent(workspace)}`}>
            <Pencil size={16} aria-hidden="true" /> Change
          </Link>
        )}
      </div>
      <Loaded query={found}>{(one) => <WorkspaceOverview workspace={one} />}</Loaded>
      {mayChange && <WebhookSecret />}
    </div>
  );
}

/** The secret that signs webhooks: copied without being shown, because a page shows a secret only when it is created. */
function WebhookSecret() {
  const { workspace } = useMe();
  const { tell, tellFault } = useToasts();
  const [isAsked, setAsked] = useState(false);
  const path = { params: { path: { workspace } } };
  const copy = async () => {
    try {
      const { secret } = await documentOf(api.GET("/api/admin/v1/workspaces/{workspace}/webhook-secret", path));
      tell((await copyText(secret)) ? "The secret is on the clipboard." : "The browser did not allow access to the clipboard.");
    } catch (error) {
      tellFault(error);
    }
  };
  return (
    <section className="card stack" aria-label="Webhook secret">
      <div>
        <h2>Webhook secret</h2>
        <p className="soft small">Webhooks of this workspace are signed with it. Receivers need it to check the signature.</p>
      </div>
      <div className="row">
        <Button icon={Copy} onClick={() => void copy()}>Copy the secret</Button>
        <Button look="danger" icon={RotateCw} onClick={() => setAsked(true)}>Rotate</Button>
      </div>
      {isAsked && (
        <FormDialog title="Rotate the webhook secret?" action="Rotate" isDangerous onClose={() => setAsked(false)}
          onSubmit={async () => (await documentOf(api.POST("/api/admin/v1/workspaces/{workspace}/webhook-secret/rotate", path))).secret}>
          {() => <p>Webhooks are signed with a new secret from now on. Receivers that check the old one refuse them until they have the new one.</p>}
        </FormDialog>
      )}
    </section>
  );
}
