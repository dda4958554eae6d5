import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";

export interface Column<Row> {
  title: string;
  /** A width in CSS grid's words. */
  width: string;
  cell: (row: Row) => ReactNode;
  isEnd?: boolean;
  /** Left out where the page is narrow. */
  isWideOnly?: boolean;
}

interface VirtualListProperties<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  idOf: (row: Row) => string;
  /** Called when the last rows come in sight. */
  onEnd?: (() => void) | undefined;
  isLoadingMore?: boolean;
}

const ROW_HEIGHT = 44;
const isNarrow = matchMedia("(max-width: 700px)");

/** A table of any length, of which only the rows in sight exist. */
export function VirtualList<Row>({ label, rows, columns, idOf, onEnd, isLoadingMore = false }: VirtualListProperties<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
    getItemKey: (index) => idOf(rows[index]!),
  });
  const items = virtual.getVirtualItems();
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (onEnd && rows.length > 0 && lastShown >= rows.length - 40) {
      onEnd();
    }
  }, [onEnd, lastShown, rows.length]);
  const shown = isNarrow.matches ? columns.filter((one) => !one.isWideOnly) : columns;
  const grid = { gridTemplateColumns: shown.map((one) => one.width).join(" ") };
  return (
    <div ref={box} className={`list ${rows.length <= 12 ? "fits" : ""}`} role="table" aria-label={label} aria-rowcount={rows.length + 1} tabIndex={0}>
      <div role="rowgroup">
        <div className="list-head" role="row" style={grid} aria-rowindex={1}>
          {shown.map((one) => (
            <div key={one.title} role="columnheader" className={one.isEnd ? "end" : ""}>
              {one.title}
            </div>
          ))}
        </div>
      </div>
      <div className="list-body" role="rowgroup" style={{ height: `${virtual.getTotalSize()}px` }}>
        {items.map((item) => (
          <div
            key={item.key}
            className="list-row"
            role="row"
            aria-rowindex={item.index + 2}
            style={{ ...grid, transform: `translateY(${item.start}px)` }}
          >
            {shown.map((one) => (
              <div key={one.title} role="cell" className={one.isEnd ? "end number" : ""}>
                {one.cell(rows[item.index]!)}
              </div>
            ))}
          </div>
        ))}
      </div>
      {isLoadingMore && <span className="visually-hidden" role="status">Loading more…</span>}
    </div>
  );
}
