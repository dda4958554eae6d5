import { BarController, BarElement, CategoryScale, Chart, Legend, LinearScale, Tooltip } from "chart.js";
import { useEffect, useRef } from "react";
import { roundDollars } from "../format";
import { useColours } from "../theme";

Chart.register(BarController, BarElement, CategoryScale, LinearScale, Tooltip, Legend);

export interface Series {
  name: string;
  values: number[];
}

const COLOURS = 8;

/** Bars of dollars for each day, parted by what each was spent on. Its figures are in a table beside it. */
export default function SpendChart({ days, series }: { days: string[]; series: Series[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours();
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const token = (name: string) => style.getPropertyValue(name).trim();
    const chart = new Chart(canvas.current!, {
      type: "bar",
      data: {
        labels: days.map((day) => day.slice(5)),
        datasets: series.map((one, at) => ({ label: one.name, data: one.values, backgroundColor: token(`--chart-${(at % COLOURS) + 1}`), borderRadius: 2, maxBarThickness: 42 })),
      },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        font: { family: token("--font") },
        scales: {
          x: { stacked: true, grid: { display: false }, ticks: { color: token("--text-soft") } },
          y: { stacked: true, beginAtZero: true, grid: { color: token("--line") }, ticks: { color: token("--text-soft"), callback: (value) => roundDollars(Number(value)) } },
        },
        plugins: {
          legend: { position: "bottom", labels: { color: token("--text"), boxWidth: 12, boxHeight: 12, usePointStyle: true } },
          tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${roundDollars(item.parsed.y ?? 0)}` } },
        },
      },
    });
    return () => chart.destroy();
  }, [days, series, colours]);
  return (
    <div className="chart">
      <canvas ref={canvas} role="img" aria-label="Spend for each day; the table below has its figures" />
    </div>
  );
}
