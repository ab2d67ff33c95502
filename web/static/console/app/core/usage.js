// What the answer of /api/cloud/usage/ says about each day, as charts, tables and files need it.
import { dayAfter, utcDay } from "./time.js";

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
