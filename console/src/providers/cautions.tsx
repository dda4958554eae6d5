import type { components } from "../api/schema";

type Caution = components["schemas"]["PriceShown"]["cautions"][number];

/** What each caution of prices means, as people read it. */
const MEANINGS: Record<Caution, string> = {
  stale: "These prices are past their end: nothing is estimated by them until somebody checks them.",
  overdue: "These prices were to be compared with the vendor's list before today.",
  derived: "These prices were worked out from what a reseller asks: the vendor may ask something else.",
};

/** Says in a word each why prices deserve attention. */
export function CautionTags({ cautions }: { cautions: readonly Caution[] }) {
  return cautions.map((one) => (
    <span key={one} className={`tag ${one === "stale" ? "bad" : "warn"}`} title={MEANINGS[one]}>
      {one}
    </span>
  ));
}

/** Says in a sentence each why prices deserve attention. */
export function CautionNotices({ cautions }: { cautions: readonly Caution[] }) {
  return cautions.map((one) => (
    <p key={one} className="notice warn">
      {MEANINGS[one]}
    </p>
  ));
}
