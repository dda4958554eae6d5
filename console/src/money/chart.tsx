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
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** A bar of dollars for each day, in a colour for each name. The table below it has the figures. */
export default function SpendChart({ days, series }: { days: string[]; series: Series[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const colours = useColours();
  useEffect(() => {
    const style = getComputedStyle(document.documentElement);
    const token = (name: string) => style.getPropertyValue(name).trim();
    const chart = new Chart(canvas.current!, {
      type: "bar",
      data: {
        labels: days.map((day) => DAY.format(new Date(`${day}T12:00:00Z`))),
        datasets: series.map((one, at) => ({ label: one.name, data: one.values, backgroundColor: token(`--chart-${(at % COLOURS) + 1}`), borderRadius: 2, maxBarThickness: 42 })),
      },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        font: { family: token("--font"), size: 12 },
        scales: {
          x: { stacked: true, grid: { display: false }, ticks: { color: token("--text-soft"), maxRotation: 0, autoSkipPadding: 16 } },
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
