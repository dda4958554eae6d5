import { PageHead, Tabs, useTab } from "../components/basics";
import { ApiKeys } from "../keys/api-keys";
import { RateLimits } from "../keys/rate-limits";

const TABS = [
  ["keys", "API keys"],
  ["limits", "Rate limits"],
] as const;

export function Keys() {
  const [tab, setTab] = useTab(TABS);
  return (
    <>
      <PageHead title="Keys">Programs call this workspace with API keys. A key is shown only once, when you create it.</PageHead>
      <Tabs label="Keys" tabs={TABS} chosen={tab} onChoose={setTab} />
      <div role="tabpanel" aria-label={TABS.find(([name]) => name === tab)?.[1]}>
        {tab === "keys" ? <ApiKeys /> : <RateLimits />}
      </div>
    </>
  );
}
