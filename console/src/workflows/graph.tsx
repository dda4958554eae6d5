import { titleOf, layOut, type NodeClass, type Workflow } from "./workflow";
import type { NodeProgress } from "./live";
import { useMemo } from "react";

const WIDTH = 190;
const HEIGHT = 58;
const GAP_X = 56;
const GAP_Y = 18;
const PAD = 12;
const WORDS: Record<NodeProgress["state"] | "waiting", string> = {
  waiting: "waiting",
  running: "running",
  finished: "done",
  cached: "cached",
  error: "failed",
};

interface GraphProperties {
  workflow: Workflow;
  classes: Record<string, NodeClass>;
  progress: Record<string, NodeProgress>;
  faultyNodes?: ReadonlySet<string>;
}

/** The nodes of a workflow in the order of their links, each with its state. */
export function Graph({ workflow, classes, progress, faultyNodes }: GraphProperties) {
  const drawn = useMemo(() => layOut(workflow), [workflow]);
  const places = new Map(drawn.nodes.map((one) => [one.id, { x: PAD + one.column * (WIDTH + GAP_X), y: PAD + one.row * (HEIGHT + GAP_Y) }]));
  const width = PAD * 2 + drawn.columns * (WIDTH + GAP_X) - GAP_X;
  const height = PAD * 2 + drawn.rows * (HEIGHT + GAP_Y) - GAP_Y;
  const states = Object.entries(workflow).map(([id, node]) => `${titleOf(node, classes)} ${WORDS[stateOf(id, progress, faultyNodes)]}`);
  return (
    <div className="graph" tabIndex={0} role="group" aria-label="Nodes of the workflow">
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="img" aria-label={states.join("; ")}>
        {drawn.links.map(({ from, to }, at) => {
          const start = places.get(from)!;
          const end = places.get(to)!;
          const [x1, y1, x2, y2] = [start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT / 2];
          return <path key={at} className="link" d={`M${x1} ${y1} C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}`} />;
        })}
        {drawn.nodes.map(({ id }) => {
          const { x, y } = places.get(id)!;
          const node = workflow[id]!;
          const state = stateOf(id, progress, faultyNodes);
          const { value, max } = progress[id] ?? { value: 0, max: 1 };
          const share = state === "running" ? Math.min(1, value / (max || 1)) : state === "waiting" ? 0 : 1;
          return (
            <g key={id} className={`node ${state}`} transform={`translate(${x} ${y})`}>
              <rect className="box" width={WIDTH} height={HEIGHT} rx={8} />
              <text className="name" x={12} y={23}>{cut(titleOf(node, classes), 24)}</text>
              <text className="state" x={12} y={41}>{state === "running" && max > 1 ? `${value} of ${max}` : WORDS[state]}</text>
              <rect className="track" x={0} y={HEIGHT - 5} width={WIDTH} height={5} rx={2.5} />
              <rect className="bar" x={0} y={HEIGHT - 5} width={WIDTH * share} height={5} rx={2.5} />
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function stateOf(id: string, progress: Record<string, NodeProgress>, faulty?: ReadonlySet<string>): NodeProgress["state"] | "waiting" {
  return faulty?.has(id) ? "error" : (progress[id]?.state ?? "waiting");
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
