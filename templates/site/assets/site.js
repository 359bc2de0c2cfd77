"use strict";
// Draws the charts with uPlot from the figures in each page, and pages through long lists of tables. Nothing is fetched:
// the pages open from a folder.

const SPANS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];
const HOUR = 3600, DAY = 86400;
const STEPS = [0.001, 0.01, 0.1, 1, 5, 15, 30, 60, 300, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
  DAY, 2 * DAY, 5 * DAY, 10 * DAY, 30 * DAY, 100 * DAY, 365 * DAY, 1000 * DAY, 3650 * DAY];

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  if (seconds < 0) return "-" + duration(-seconds);
  const parts = [];
  let rest = Math.round(seconds);
  for (const [size, name] of SPANS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(count + name);
  }
  return parts.slice(0, 2).join("") || (seconds ? Math.round(seconds * 1000) + "ms" : "0");
}

function bytes(size) {
  let value = size, unit = 0;
  while (value >= 1024 && unit < SIZES.length - 1) { value /= 1024; unit += 1; }
  return (Number.isInteger(value) ? value : value.toFixed(1)) + " " + SIZES[unit];
}

// Round numbers of each unit, for the ticks of an axis.
function sizeSteps() {
  return SIZES.flatMap((_, unit) => [1, 2, 5, 10, 20, 50, 100, 200, 500].map((count) => count * 1024 ** unit));
}

function time(seconds) {
  if (seconds === null || seconds === undefined) return "-";
  return new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function axis(extra) {
  return {
    stroke: colour("soft"), font: "12px " + colour("sans"),
    grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1, size: 4 }, ...extra,
  };
}

// Hours of the day, and the day where it changes; with dates alone where the ticks are days apart.
function timeAxis() {
  const label = (tick, step, before) => {
    const [day, clock] = time(tick).split(" ");
    if (step >= DAY) return day.slice(5);
    const short = clock.slice(0, step < 60 ? 8 : 5);
    return before !== undefined && time(before).startsWith(day) ? short : short + "\n" + day.slice(5);
  };
  return axis({ size: 46, space: 64, values: (plot, ticks, index, space, step) => ticks.map((tick, at) => label(tick, step, ticks[at - 1])) });
}

// Where the first and the last point are one, an hour on both sides.
function timeRange(plot, low, high) {
  return low === high ? [low - HOUR, high + HOUR] : [low, high];
}

function common(element, series, axes, scales, readout) {
  return {
    width: element.clientWidth, height: element.closest(".chart").dataset.chart === "bytes" ? 160 : 272,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false }, padding: [10, 24, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } },
    series: series, axes: axes, scales: scales, hooks: { setCursor: [(plot) => readout(plot.cursor.idx)] },
  };
}

function diamond(context, x, y, size) {
  context.beginPath();
  context.moveTo(x, y - size); context.lineTo(x + size, y); context.lineTo(x, y + size); context.lineTo(x - size, y);
  context.closePath(); context.fill();
}

// Compactions as dots on the line, late data as diamonds below it: drawn after the lines, so that they lie on top.
function drawMarks(plot, marks, values) {
  const context = plot.ctx, ratio = devicePixelRatio || 1;
  context.save();
  let drawn = 0;
  marks.forEach((mark, index) => {
    if (!mark || values[index] === null) return;
    const x = plot.valToPos(plot.data[0][index], "x", true), y = plot.valToPos(values[index], "y", true);
    context.fillStyle = mark === "late" ? colour("bad") : mark === "run" ? colour("plot") : colour("soft");
    if (mark === "late") diamond(context, x, y, 5 * ratio);
    else { context.beginPath(); context.arc(x, y, 3.5 * ratio, 0, 7); context.fill(); }
    drawn += 1;
  });
  context.restore();
  plot.root.closest(".plot").dataset.marks = drawn;
}

function completeness(element, data, view, say) {
  const now = data.x.map((x) => x + data.shift);
  const lag = (times) => times.map((value, index) => (value === null ? null : Math.max(0, now[index] - value)));
  const away = (limit) => now.map((value) => (limit === null ? null : view === "lag" ? limit : value - limit));
  const line = view === "lag" ? lag(data.complete) : data.complete;
  const threshold = view === "lag" ? lag(data.threshold) : data.threshold;
  const known = line.filter((value) => value !== null);
  const highest = Math.max(...known, 1);
  const useful = (limit) => limit !== null && (view === "until" || limit <= 3 * highest);
  const series = [{},
    { stroke: colour("plot"), width: 2, fill: view === "lag" ? colour("plot-wash") : undefined, points: { show: false } },
    { stroke: colour("second"), width: 1.5, dash: [2, 3], points: { show: false } },
    { stroke: colour("good"), width: 1.5, dash: [6, 4], points: { show: false }, show: useful(data.target) },
    { stroke: colour("bad"), width: 1.5, dash: [6, 4], points: { show: false }, show: useful(data.error) }];
  const lagRange = (plot, low, high) => [0, Math.max(high, useful(data.target) ? data.target : 0, 1) * 1.12];
  const values = view === "lag"
    ? axis({ size: 58, incrs: STEPS, values: (plot, ticks) => ticks.map(duration) })
    : axis({ size: 92, incrs: STEPS, values: (plot, ticks) => ticks.map((tick) => time(tick).slice(5, 16)) });
  const options = common(element, series, [timeAxis(), values],
    { x: { range: timeRange }, y: view === "lag" ? { range: lagRange } : {} }, (index) => {
      if (index === null || index === undefined) { say(""); return; }
      const mark = { run: "compaction, ", foreign: "compaction by others, ", late: "late data, " }[data.marks[index]] || "";
      say(`${time(data.x[index])}: ${mark}RO complete until ${time(data.complete[index])}, ` +
        `lag ${data.complete[index] === null ? "-" : duration(Math.max(0, now[index] - data.complete[index]))}`);
    });
  options.hooks.draw = [(plot) => drawMarks(plot, data.marks, line)];
  return new uPlot(options, [data.x, line, threshold, away(data.target), away(data.error)], element);
}

// Runs are side by side in their order, however much time lies between them.
function rewritten(element, data, view, say) {
  const places = data.x.map((_, index) => index), last = data.x.length - 1;
  const bars = { stroke: colour("plot"), fill: colour("plot"), paths: uPlot.paths.bars({ size: [0.7, 36] }), points: { show: false } };
  const day = (place) => (Number.isInteger(place) && place in data.x ? time(data.x[place]).slice(5, 16) : "");
  const options = common(element, [{}, bars],
    [axis({ size: 34, space: 96, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], values: (plot, ticks) => ticks.map(day) }),
      axis({ size: 70, incrs: sizeSteps(), space: 28, values: (plot, ticks) => ticks.map(bytes) })],
    { x: { time: false, range: () => [-0.6, last + 0.6] }, y: { range: (plot, low, high) => [0, Math.max(high, 1) * 1.1] } },
    (index) => say(index === null || index === undefined ? "" : `${time(data.x[index])}: ${bytes(data.bytes[index])} written`));
  options.hooks.draw = [(plot) => { element.dataset.marks = plot.data[0].length; }];
  return new uPlot(options, [places, data.bytes], element);
}

function moveByKeys(element, current) {
  element.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const plot = current(), last = plot.data[0].length - 1, at = plot.cursor.idx;
    const from = at === null || at === undefined ? (steps[event.key] < 0 ? last + 1 : -1) : at;
    const index = Math.min(last, Math.max(0, from + steps[event.key]));
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: 10 });
  });
}

function start(chart) {
  const element = chart.querySelector(".plot"), readout = chart.querySelector(".readout");
  const data = JSON.parse(chart.querySelector(".series").textContent);
  const draw = chart.dataset.chart === "bytes" ? rewritten : completeness;
  const say = (text) => { readout.textContent = text || "Point at the chart, or use the arrow keys, to read a value."; };
  let view = "lag", plot = null;
  const redraw = () => {
    if (plot) plot.destroy();
    plot = draw(element, data, view, say);
  };
  redraw();
  say("");
  moveByKeys(element, () => plot);
  const group = chart.querySelector(".switch");
  if (group) {
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      view = button.dataset.view;
      for (const one of group.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one === button));
      redraw();
    });
  }
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    plot.setSize({ width: width, height: plot.height });
  }).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

document.querySelectorAll(".chart").forEach(start);

const PAGE_ROWS = 50;

// Search, filters and paging over the rows that are there. The choice is in the address, so that Back returns to it.
function findTables(table) {
  const finder = document.querySelector(".finder"), nothing = document.querySelector("[data-nothing]");
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, words: row.dataset.words.toLowerCase(),
    tags: JSON.parse(row.dataset.tags), status: row.dataset.status }));
  const fields = [...finder.querySelectorAll("input, select")], outputs = document.querySelectorAll(".pager output");
  const buttons = [...document.querySelectorAll(".pager button")];
  let page = 0;
  const chosen = () => Object.fromEntries(fields.map((field) => [field.name, field.value.trim()]));
  const show = () => {
    const { find, tag, status } = chosen(), words = find.toLowerCase().split(/\s+/);
    const found = rows.filter((one) => words.every((word) => one.words.includes(word)) &&
      (!tag || one.tags.includes(tag)) && (!status || one.status === status));
    const last = Math.max(0, Math.ceil(found.length / PAGE_ROWS) - 1);
    page = Math.min(Math.max(page, 0), last);
    const first = page * PAGE_ROWS, visible = new Set(found.slice(first, first + PAGE_ROWS));
    for (const one of rows) one.row.hidden = !visible.has(one);
    for (const output of outputs) output.textContent = found.length ? `${first + 1} to ${first + visible.size} of ${found.length}` : "0";
    for (const button of buttons) button.disabled = button.dataset.step < 0 ? page === 0 : page === last;
    nothing.hidden = found.length > 0;
    table.hidden = !found.length;
    document.querySelector(".below").hidden = !last;
    const kept = new URLSearchParams(Object.entries({ ...chosen(), page: page ? String(page + 1) : "" }).filter(([, value]) => value));
    history.replaceState(null, "", String(kept) ? "#" + kept : location.pathname + location.search);
  };
  const given = new URLSearchParams(location.hash.slice(1));
  for (const field of fields) if (given.has(field.name)) field.value = given.get(field.name);
  for (const field of fields) if (field.selectedIndex === -1) field.selectedIndex = 0;
  page = (Number.parseInt(given.get("page"), 10) || 1) - 1;
  for (const field of fields) field.addEventListener("input", () => { page = 0; show(); });
  for (const button of buttons) button.addEventListener("click", () => {
    page += Number(button.dataset.step);
    show();
    if (button.closest(".below")) finder.scrollIntoView();
  });
  finder.hidden = false;
  show();
}

document.querySelectorAll("[data-find]").forEach(findTables);
