// Usage by day: bars stacked by model, the cap as a line, and the same figures as a table.
import { html, useMemo, useState } from "../lib.js";
import { dayAfter, money, utcDay } from "../core/words.js";
import { Line, Table } from "./ui.js";

// What the answer of /api/cloud/usage/ says about each day, as charts, tables and files need it.

/** What can be measured: the label, and the value of the sums of a day and model. */
export const MEASURES = {
  cost: { label: "Cost", of: (sums) => sums?.total_cost_usd ?? 0 },
  tokens: { label: "Tokens", of: (sums) => (sums ? sums.input_tokens + sums.output_tokens : 0) },
  calls: { label: "Calls", of: (sums) => sums?.llm_calls ?? 0 },
};
const MAX_SERIES = 8; // as many as there are colours

const modelName = (model) => model.model ?? "other models";

/** Return the models in the order of their colours; the last series stands for all that have no colour. */
export const seriesOf = (usage) => {
  const { models } = usage;
  if (models.length <= MAX_SERIES) return models.map((model, index) => ({ name: modelName(model), indexes: [index] }));
  const single = models.slice(0, MAX_SERIES - 1).map((model, index) => ({ name: modelName(model), indexes: [index] }));
  return [...single, { name: "other models", indexes: models.map((_, index) => index).slice(MAX_SERIES - 1) }];
};

/** Return every day of the period: `{day, values, total}`, where `values` has one number for each series. */
export const daysOf = (usage, series, measure) => {
  const { of } = MEASURES[measure];
  const found = new Map(usage.days.map(({ day, by_model: sums }) => [day, sums]));
  const days = [];
  const last = Date.parse(usage.end_date) - 1;
  for (let day = utcDay(Date.parse(usage.start_date)); Date.parse(day) <= last; day = dayAfter(day)) {
    const sums = found.get(day) ?? [];
    const values = series.map(({ indexes }) => indexes.reduce((total, index) => total + of(sums[index]), 0));
    days.push({ day, values, total: values.reduce((total, value) => total + value, 0) });
  }
  return days;
};

/** Return the measure to show if none was chosen: the cost, unless nothing had a price. */
export const usualMeasure = (usage) => (usage.total.total_cost_usd > 0 || !usage.total.llm_calls ? "cost" : "tokens");

// A spreadsheet would run text that begins like a formula.
const cell = (value) => {
  const text = String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Return the usage as CSV: one line for each day and model. */
export const usageCsv = (usage) => {
  const names = ["llm_calls", "input_tokens", "cached_tokens", "output_tokens", "total_cost_usd", "priced"];
  const lines = [["day", "model", ...names]];
  for (const { day, by_model: byModel } of usage.days) {
    byModel.forEach((sums, index) => {
      if (sums) lines.push([day, modelName(usage.models[index]), ...names.map((name) => sums[name])]);
    });
  }
  return lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
};

const HEIGHT = 100; // units of the drawing, which is stretched to its place
const CAP_REACH = 4; // a cap beyond this many times the highest bar would make all bars flat
const MANY_DAYS = 62;

/** Return a value of a measure as text. */
export const measured = (value, measure) =>
  measure === "cost" ? money(value) : Math.round(value).toLocaleString("en", { notation: value < 1e6 ? "standard" : "compact" });

const Legend = ({ series }) => html`<ul class="usage-legend">
  ${series.map(({ name }, index) => html`<li><span class="usage-dot usage-series-${index + 1}"></span><${Line} value=${name} max=${60} /></li>`)}
</ul>`;

/** Return one path for all bars of each series: fewer elements than bars, so that a year is drawn at once. */
const pathsOf = (days, count, top) => {
  const paths = Array(count).fill("");
  for (const [place, { values }] of days.entries()) {
    let from = HEIGHT;
    for (const [index, value] of values.entries()) {
      const height = (value / top) * HEIGHT;
      from -= height;
      if (height > 0) paths[index] += `M${place + 0.12} ${from}h.76v${height}h-.76z`;
    }
  }
  return paths.map((path, index) => html`<path class="usage-series-${index + 1}" d=${path} />`);
};

const Caption = ({ day, series, measure }) => {
  if (!day) return html`<p class="usage-caption muted">Days are those of UTC. Point at a day for its figures.</p>`;
  const parts = day.values.map((value, index) => value > 0 && html` · <${Line} value=${series[index].name} max=${40} /> ${measured(value, measure)}`);
  return html`<p class="usage-caption"><strong>${day.day}: ${measured(day.total, measure)}</strong>${parts}</p>`;
};

const capOf = (usage) => usage.agent_max_cost_usd_per_day ?? usage.organization_max_cost_usd_per_day;

/** Show the bars of a period: `usage` is the answer of /api/cloud/usage/.
 *
 * `measure`: cost, tokens or calls. `day` is the chosen day, and `onDay` is called with another one or null.
 */
export const UsageChart = ({ usage, measure = "cost", day, onDay }) => {
  const [pointed, point] = useState(null);
  const series = useMemo(() => seriesOf(usage), [usage]);
  const days = useMemo(() => daysOf(usage, series, measure), [series, measure]);
  const highest = Math.max(...days.map(({ total }) => total), 0);
  const cap = measure === "cost" ? capOf(usage) : null;
  const isNear = cap != null && cap > 0 && (cap <= highest * CAP_REACH || highest === 0);
  const top = Math.max(highest, isNear ? cap : 0) * 1.05 || 1;
  const bars = useMemo(() => pathsOf(days, series.length, top), [days, top]);
  const shown = pointed ?? days.find((one) => one.day === day);
  const dayAt = ({ currentTarget, clientX }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    return days[Math.min(Math.max(Math.floor(((clientX - left) / width) * days.length), 0), days.length - 1)];
  };
  const choose = (event) => {
    const chosen = dayAt(event).day;
    onDay?.(chosen === day ? null : chosen);
  };
  const label = `${MEASURES[measure].label} by day from ${days[0]?.day} to ${days.at(-1)?.day}; the highest is ${measured(highest, measure)}. The table below has all figures.`;
  return html`<figure class="usage-chart">
    <${Legend} series=${series} />
    <div class="usage-plot">
      <span class="usage-scale">${measured(top / 1.05, measure)}</span>
      <svg
        viewBox="0 0 ${days.length || 1} ${HEIGHT}"
        preserveAspectRatio="none"
        role="img"
        aria-label=${label}
        onPointerMove=${(event) => point(dayAt(event))}
        onPointerLeave=${() => point(null)}
        onClick=${choose}
      >
        ${shown && html`<rect class="usage-day" x=${days.indexOf(shown)} y="0" width="1" height=${HEIGHT} />`}
        ${bars}
        ${isNear && html`<line class="usage-cap" x1="0" x2=${days.length} y1=${HEIGHT - (cap / top) * HEIGHT} y2=${HEIGHT - (cap / top) * HEIGHT} />`}
      </svg>
      <div class="usage-days"><span>${days[0]?.day}</span><span>${days.at(-1)?.day}</span></div>
    </div>
    <figcaption>
      <${Caption} day=${shown} series=${series} measure=${measure} />
      ${cap != null && html`<p class="muted"><span class="usage-cap-key"></span> Cap: ${money(cap)} a day${isNear ? "" : ", far above these bars"}.</p>`}
      ${measure === "cost" && !usage.total.priced && html`<p class="muted">Some calls have no known price and are no part of the cost.</p>`}
    </figcaption>
  </figure>`;
};

/** Show the figures of the chart as a table, the latest day first; the days are buttons if `onDay` is given. */
export const UsageTable = ({ usage, measure = "cost", day, onDay }) => {
  const [isWhole, setWhole] = useState(false);
  const series = seriesOf(usage);
  const days = daysOf(usage, series, measure).reverse();
  const shown = isWhole ? days : days.slice(0, MANY_DAYS);
  const columns = [
    { title: "Day", cell: (row) => (onDay ? html`<button class="quiet usage-date" onClick=${() => onDay(row.day)}>${row.day}</button>` : html`<span class="usage-date">${row.day}</span>`) },
    { title: "All", number: true, cell: (row) => measured(row.total, measure) },
    ...series.map(({ name }, index) => ({
      title: html`<${Line} value=${name} max=${40} />`,
      number: true,
      cell: (row) => (row.values[index] ? measured(row.values[index], measure) : "–"),
    })),
  ];
  return html`<${Table} columns=${columns} rows=${shown} id=${(row) => row.day} selected=${day} label="${MEASURES[measure].label} by day and model" />
    ${shown.length < days.length && html`<button class="quiet" onClick=${() => setWhole(true)}>Show all ${days.length} days</button>`}`;
};
