import { Receipt } from "lucide-react";
import { Link } from "wouter";
import { api, documentOf } from "../api/client";
import { usePages } from "../api/pages";
import type { components } from "../api/schema";
import { Button, Empty, Loaded } from "../components/basics";
import { type Column, VirtualList } from "../components/virtual-list";
import { date } from "../format";
import { CautionTags } from "./cautions";

type Price = components["schemas"]["PriceShown"];

const COLUMNS: readonly Column<Price>[] = [
  { title: "Model", width: "minmax(140px, 2fr)", cell: (one) => <Link href={`/models/${one.model}`}>{one.model}</Link> },
  { title: "Provider", width: "minmax(80px, 1fr)", isWideOnly: true, cell: (one) => one.provider },
  { title: "List price in dollars", width: "minmax(140px, 2.4fr)", cell: (one) => <span title={one.prices.join("; ")}><CautionTags cautions={one.cautions} /> {one.prices.join("; ")}</span> },
  { title: "Markup", width: "80px", isEnd: true, isWideOnly: true, cell: (one) => `${one.markup} %` },
  { title: "From", width: "100px", isWideOnly: true, cell: (one) => date(one.effective) },
  { title: "Checked", width: "100px", isWideOnly: true, cell: (one) => <span title={one.source ?? undefined}>{date(one.checked)}</span> },
];

/** The prices of every model at every provider, with their sources. */
export function Prices() {
  const list = usePages(["prices"], (cursor) => documentOf(api.GET("/api/admin/v1/prices", { params: { query: { cursor, limit: 200 } } })));
  return (
    <Loaded query={list.query}>
      {() =>
        list.rows.length === 0 ? (
          <Empty icon={Receipt} action={<Button onClick={() => void list.query.refetch()}>Refresh</Button>}>The catalog has no prices.</Empty>
        ) : (
          <VirtualList label="Prices" rows={list.rows} columns={COLUMNS} idOf={(one) => `${one.model} ${one.provider} ${one.effective}`} onEnd={list.more} isLoadingMore={list.isLoadingMore} />
        )
      }
    </Loaded>
  );
}
