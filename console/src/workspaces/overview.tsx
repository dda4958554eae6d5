import type { components } from "../api/schema";
import { Fact, Facts, Figure, StateTag } from "../components/basics";
import { bytes, date, dateTime, dollars, roundDollars } from "../format";

type Workspace = components["schemas"]["WorkspaceShown"];

/** The money, limits and rights of a workspace. */
export function WorkspaceOverview({ workspace: one }: { workspace: Workspace }) {
  const { limits, storage } = one;
  return (
    <div className="stack wide">
      {one.delete_at && <p className="notice bad">This workspace will be deleted on {dateTime(one.delete_at)}. Until then an operator can restore it.</p>}
      {one.state === "suspended" && <p className="notice warn">This workspace is suspended: it starts no runs and no jobs.</p>}
      <div className="figures">
        <Figure label="Available" value={roundDollars(one.available)} />
        <Figure label="Balance" value={roundDollars(one.balance)} />
        <Figure label="Held" value={roundDollars(one.held)} />
        <Figure label="Running" value={`${one.under_way.runs} runs, ${one.under_way.jobs} jobs`}>{one.under_way.waiting + one.under_way.jobs_parked} waiting</Figure>
        <Figure label="Files" value={bytes(storage.bytes)}>{storage.files.toLocaleString("en-US")} files</Figure>
      </div>
      <div className="parts">
        <section className="card">
          <h2>Limits</h2>
          <Facts>
            <Fact name="Runs at a time">{limitOf(limits.in_flight, -1)}</Fact>
            <Fact name="Jobs at a time">{limitOf(limits.jobs, -1)}</Fact>
            <Fact name="Committed spend">{limits.commitment === null ? "no limit" : dollars(limits.commitment)}</Fact>
            <Fact name="Storage">{limits.storage_bytes === 0 ? "no limit" : bytes(limits.storage_bytes)}</Fact>
            <Fact name="Number of files">{limitOf(limits.storage_files, 0)}</Fact>
            <Fact name="Subscription">{one.subscription}</Fact>
            {one.tier && <Fact name="Tier">{one.tier}</Fact>}
          </Facts>
        </section>
        <section className="card">
          <h2>Billing and rights</h2>
          <Facts>
            <Fact name="State"><StateTag state={one.state} /></Fact>
            <Fact name="Billing">{one.billing}{one.billing === "postpaid" && `, up to ${dollars(one.cap)}`}</Fact>
            <Fact name="Markup">{one.markup === null ? "the server's setting" : `${one.markup} %`}</Fact>
            <Fact name="Models">{one.models?.join(", ") ?? "all"}</Fact>
            <Fact name="Providers">{one.providers?.join(", ") ?? "all"}</Fact>
            <Fact name="Switched off">{Object.entries(one.switches).filter(([, state]) => state === "off").map(([name]) => name).join(", ") || "nothing"}</Fact>
            <Fact name="Organization">{one.organization ?? "none"}{one.sso_required && ", single sign-on required"}</Fact>
            <Fact name="Created">{date(one.created_at)}</Fact>
          </Facts>
        </section>
      </div>
    </div>
  );
}

function limitOf(value: number, none: number): string {
  return value === none ? "no limit" : value.toLocaleString("en-US");
}
