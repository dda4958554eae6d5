import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type ReactNode, useEffect, useLayoutEffect, useRef, useSyncExternalStore } from "react";

export interface Column<Row> {
  title: string;
  /** A width in the words of CSS grid. */
  width: string;
  cell: (row: Row) => ReactNode;
  isEnd?: boolean;
  /** Left out where the page is narrow. */
  isWideOnly?: boolean;
}

interface VirtualListProperties<Row> {
  label: string;
  rows: Row[];
  columns: readonly Column<Row>[];
  idOf: (row: Row, index: number) => string;
  /** Called when the last rows come into sight. */
  onEnd?: (() => void) | undefined;
  isLoadingMore?: boolean;
}

const ROW_HEIGHT = 44;
const NARROW_ROW_HEIGHT = 62;
const SLOTS_STEP = 4;
const narrow = matchMedia("(max-width: 700px)");

function useIsNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      narrow.addEventListener("change", listener);
      return () => narrow.removeEventListener("change", listener);
    },
    () => narrow.matches,
  );
}

/** A table of any length, of which only the rows in sight exist. */
export function VirtualList<Row>({ label, rows, columns, idOf, onEnd, isLoadingMore = false }: VirtualListProperties<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const isNarrow = useIsNarrow();
  const rowHeight = isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT; // two lines of text, or one
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: 4,
    getItemKey: (index) => idOf(rows[index]!, index),
  });
  useLayoutEffect(() => virtual.measure(), [virtual, rowHeight]);
  const items = virtual.getVirtualItems();
  // An element that goes out of sight shows a row that comes into it: only its texts change, which is far less to do
  // than to style a new one. The number is rounded, so that rows in sight keep theirs where one more or less is.
  const slots = Math.ceil(items.length / SLOTS_STEP) * SLOTS_STEP;
  const lastShown = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (onEnd && lastShown >= rows.length - 40) {
      onEnd(); // also where a page is empty and the list goes on behind it
    }
  }, [onEnd, lastShown, rows.length]);
  const shown = isNarrow ? columns.filter((one) => !one.isWideOnly) : columns;
  const grid = { gridTemplateColumns: shown.map((one) => one.width).join(" ") };
  return (
    <div ref={box} className={`list ${rows.length <= 12 ? "fits" : ""}`} role="table" aria-label={label} aria-rowcount={rows.length + 1} style={{ "--row": `${rowHeight}px` } as CSSProperties} tabIndex={0}>
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
            key={item.index % slots}
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
