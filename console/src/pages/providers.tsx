import { Plug } from "lucide-react";
import { PageHead, Tabs, useTab } from "../components/basics";
import { useMe } from "../api/session";
import { ProviderHealth } from "../providers/health";
import { OwnKeys } from "../providers/own-keys";
import { Prices } from "../providers/prices";

const TABS = [
  ["providers", "Providers"],
  ["keys", "Keys of this workspace"],
  ["prices", "Prices"],
] as const;

export function Providers() {
  const { isOperator } = useMe();
  const tabs = isOperator ? TABS : TABS.slice(1, 2);
  const [tab, setTab] = useTab(tabs);
  return (
    <>
      <PageHead title="Providers">
        {isOperator ? "The services that run models: which of them can be called, and which cool down after failures." : "The keys of this workspace at the services that run models."}
      </PageHead>
      {isOperator && <Tabs label="Providers" tabs={tabs} chosen={tab} onChoose={setTab} />}
      <div role={isOperator ? "tabpanel" : undefined} aria-label={isOperator ? tabs.find(([name]) => name === tab)?.[1] : undefined}>
        {tab === "providers" ? <ProviderHealth /> : tab === "prices" ? <Prices /> : <OwnKeys icon={Plug} />}
      </div>
    </>
  );
}
