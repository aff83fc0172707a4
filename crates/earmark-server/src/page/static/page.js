"use strict";
// Draws the charts and saves a click where a namespace is chosen. Everything else works without scripts.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const percent = (value) => (value == null ? "" : Math.round(100 * value) + " %");
// The legend tells the newest value until a point is chosen.
const told = (u, value, series, index) => percent(index == null ? u.data[series].at(-1) : value);

function lines(kind) {
  if (kind === "hits") {
    return [{ label: "something useful was shown", stroke: colour("--learned"), width: 2, value: told }];
  }
  return [
    { label: "static", stroke: colour("--fixed"), width: 2, dash: [6, 4], value: told },
    { label: "learned", stroke: colour("--learned"), width: 2, value: told },
    { label: "at least", width: 0, points: { show: false }, value: told },
    { label: "at most", width: 0, points: { show: false }, value: told },
  ];
}

function draw(place, kind, data) {
  place.replaceChildren();
  const axis = () => ({ stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } });
  new uPlot({
    width: place.clientWidth,
    height: 240,
    scales: { x: { time: false }, y: { range: [0, 1.02] } },
    axes: [
      { ...axis(), label: "closed recalls", labelSize: 24, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] },
      { ...axis(), size: 56, values: (u, ticks) => ticks.map(percent) },
    ],
    series: [{ label: "closed recalls" }, ...lines(kind)],
    bands: kind === "hits" ? [] : [{ series: [4, 3], fill: colour("--band") }],
  }, data, place);
}

async function chart(place) {
  const answer = await fetch(place.dataset.source, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const data = (await answer.json())[place.dataset.kind];
  const redraw = () => draw(place, place.dataset.kind, data);
  redraw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(place.clientWidth - width) > 4) {
      width = place.clientWidth;
      redraw();
    }
  }).observe(place);
}

document.querySelectorAll(".chart").forEach(chart);
document.querySelectorAll(".where select").forEach((choice) => {
  choice.addEventListener("change", () => choice.form.requestSubmit());
});
