import type { ReactNode } from "react";

const WIDTH = 320;
const HEIGHT = 160;
const TINTS = 6;

/** A drawing for a model that has no picture of its own yet: what kind of thing it makes, in its maker's colour, the same each time. */
export function Cover({ id, modality }: { id: string; modality: string | null }) {
  const draw = DRAWINGS[modality ?? ""] ?? cubes;
  return (
    <svg className={`cover tint-${hash(id.split("/")[0] ?? "") % TINTS}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="xMidYMid slice" aria-hidden="true">
      {draw(numbers(id))}
    </svg>
  );
}

type Next = (least: number, most: number) => number;

const DRAWINGS: Record<string, (next: Next) => ReactNode> = { image: hills, video: clip, audio: wave, text: lines, "3d": cubes };

function hash(text: string): number {
  let sum = 2166136261;
  for (const letter of text) {
    sum = Math.imul(sum ^ letter.charCodeAt(0), 16777619);
  }
  return sum >>> 0;
}

/** Numbers that look random and are the same for the same text. */
function numbers(text: string): Next {
  let state = hash(text) || 1;
  return (least, most) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return least + ((state >>> 0) / 4294967296) * (most - least);
  };
}

function hills(next: Next): ReactNode {
  const ridge = (height: number, swing: number) => {
    const points = Array.from({ length: 6 }, (_, at) => [at * 64, height + next(-swing, swing)] as const);
    const curve = points.slice(1).map(([x, y], at) => `C${points[at]![0] + 32} ${points[at]![1].toFixed(1)} ${x - 32} ${y.toFixed(1)} ${x} ${y.toFixed(1)}`);
    return `M0 ${points[0]![1].toFixed(1)} ${curve.join(" ")} V${HEIGHT} H0 Z`;
  };
  return (
    <>
      <circle className="shade-3" cx={next(70, 250).toFixed(1)} cy={next(38, 66).toFixed(1)} r={next(16, 30).toFixed(1)} />
      <path className="shade-1" d={ridge(88, 22)} />
      <path className="shade-2" d={ridge(112, 16)} />
      <path className="shade-3" d={ridge(136, 10)} />
    </>
  );
}

function clip(next: Next): ReactNode {
  return (
    <>
      {hills(next)}
      <circle className="plate" cx={160} cy={80} r={26} />
      <path className="shade-4" d="M152 67 L174 80 L152 93 Z" />
    </>
  );
}

function wave(next: Next): ReactNode {
  const bars = Array.from({ length: 33 }, (_, at) => 8 + (1 - Math.abs(at - 16) / 18) * next(14, 96));
  return bars.map((height, at) => <rect key={at} className={at % 3 === 0 ? "shade-4" : "shade-2"} x={30 + at * 8} y={(HEIGHT - height) / 2} width={4} height={height.toFixed(1)} rx={2} />);
}

function lines(next: Next): ReactNode {
  return Array.from({ length: 6 }, (_, at) => (
    <rect key={at} className={at === 0 ? "shade-4" : "shade-2"} x={52} y={32 + at * 17} width={(at === 0 ? next(80, 130) : at === 5 ? next(60, 120) : next(180, 216)).toFixed(1)} height={at === 0 ? 9 : 6} rx={3} />
  ));
}

function cubes(next: Next): ReactNode {
  const cube = (x: number, y: number, size: number) => {
    const [half, rise] = [size, size / 2];
    return (
      <g key={`${x} ${y}`} transform={`translate(${x.toFixed(1)} ${y.toFixed(1)})`}>
        <path className="shade-1" d={`M0 ${-rise * 2} L${half} ${-rise} L0 0 L${-half} ${-rise} Z`} />
        <path className="shade-2" d={`M${-half} ${-rise} L0 0 V${half} L${-half} ${rise} Z`} />
        <path className="shade-4" d={`M${half} ${-rise} L0 0 V${half} L${half} ${rise} Z`} />
      </g>
    );
  };
  return [cube(next(96, 120), next(84, 96), 30), cube(next(196, 222), next(78, 96), 26), cube(160, 82, 42)];
}
