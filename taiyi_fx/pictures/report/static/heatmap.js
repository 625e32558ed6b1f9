"use strict";

/* Layers by steps: a row for each module in the order of execution, a colour for each number. */
((taiyi) => {
  const TOP = 8;
  const BOTTOM = 26;
  const { find, element } = taiyi;
  let shown = null;
  let turn = 0;
  let at = { row: 0, column: 0 };

  /** Sets the heat map up: it follows the state from here on. */
  taiyi.startHeatMap = () => {
    const overlay = find("heat-overlay");
    taiyi.followPointer(overlay, () => shown.area, { hover: onHover, click: onClick });
    overlay.addEventListener("keydown", onKey);
    find("heat-table").addEventListener("toggle", fillTable);
    const topics = ["quantity", "mode", "compared", "colourScale", "range", "theme", "updates"];
    taiyi.on(topics, taiyi.drawHeatMap);
    taiyi.on(["selection"], () => shown && draw());
    taiyi.on(["cursor"], drawOverlay);
    taiyi.onResize(find("heat"), taiyi.drawHeatMap);
  };

  /** Draws the heat map of the present quantity, as soon as its numbers are there. */
  taiyi.drawHeatMap = async () => {
    turn += 1;
    const mine = turn;
    const rows = await rowsOf(taiyi.state.quantity);
    if (mine !== turn) return;
    find("heat-empty").hidden = rows.length > 0;
    find("heat").hidden = rows.length === 0;
    if (rows.length === 0) return;
    shown = { rows, ...measured(rows) };
    draw();
    fillTable();
  };

  /** Rows with what each run has of a module; the first run gives their order. */
  async function rowsOf(quantity) {
    const byModule = new Map();
    for (const [place, run] of taiyi.runs().entries()) {
      for (const series of taiyi.seriesOf(run, quantity)) {
        const row = byModule.get(series.module) ?? {
          module: series.module,
          sources: [],
          series: [],
        };
        row.series[place] = series;
        row.sources[place] = { chunk: await taiyi.chunk(run, series.chunk), row: series.row };
        byModule.set(series.module, row);
      }
    }
    return [...byModule.values()];
  }

  function measured(rows) {
    const width = find("heat").clientWidth;
    const ideal = rows.length <= 32 ? 16 * rows.length : Math.max(400, 2 * rows.length);
    const height = Math.round(Math.min(Math.max(ideal, 60), 900));
    const area = taiyi.areaOf(width, TOP, height);
    return { area, width, height: height + TOP + BOTTOM, ...look(rows, area.width) };
  }

  /** The raster of what is compared, and how its values become colours. */
  function look(rows, columns) {
    const { compared, colourScale } = taiyi.state;
    const of = (place) =>
      taiyi.raster(
        rows.map((row) => row.sources[place] ?? null),
        taiyi.shownSteps(),
        columns,
      );
    if (taiyi.showsRatio()) return ratioLook(taiyi.ratio(of(0), of(1)));
    const raster = of(compared === "second" ? 1 : 0);
    return taiyi.colouring(raster, colourScale === "log");
  }

  function ratioLook(raster) {
    const measure = (value) => value;
    const found = taiyi.colourLimits(raster, measure).filter(Number.isFinite);
    const widest = Math.max(...found.map(Math.abs), 0.1);
    const limits = [-widest, widest];
    const labels = (powers) =>
      taiyi.numerals(powers.map((power) => 2 ** power)).map((text) => `× ${text}`);
    const ticks = taiyi.ticks(limits, 4);
    return { raster, measure, map: taiyi.maps.diverging, limits, labels, ticks };
  }

  function draw() {
    const { area, raster, width, height } = shown;
    const pen = taiyi.paper(find("heat-canvas"), width, height);
    taiyi.paintAbsent(pen, area);
    taiyi.paint(pen, area, raster, shown);
    taiyi.drawBoundaries(pen, area, taiyi.ink("boundary"));
    taiyi.drawSteps(pen, area);
    drawNames(pen);
    taiyi.paintColourBar(find("heat-bar"), shown);
    const kinds = new Set(raster.flags);
    for (const [name, flag] of Object.entries(taiyi.flags)) {
      const key = find(`key-${name.toLowerCase()}`);
      if (key) key.hidden = !kinds.has(flag);
    }
    drawOverlay();
  }

  /** As many names as there is room for, and those of what is selected. */
  function drawNames(pen) {
    const { rows, area } = shown;
    const selected = taiyi.selectedModules();
    const rowHeight = area.height / rows.length;
    const stride = Math.ceil(13 / rowHeight);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const isNear = (index, other) => Math.abs(index - other) * rowHeight < 12;
    const indices = rows.map((_, index) => index);
    const marked = thinned(
      indices.filter((index) => selected.has(rows[index].module)),
      isNear,
    );
    const isFree = (index) => !marked.some((other) => isNear(index, other));
    for (const k of indices.filter((index) => index % stride === 0 && isFree(index))) {
      drawName(pen, rows[k], area, (k + 0.5) * rowHeight, false);
    }
    for (const k of marked) drawName(pen, rows[k], area, (k + 0.5) * rowHeight, true);
  }

  function thinned(indices, isNear) {
    const kept = [];
    for (const index of indices) if (!kept.length || !isNear(index, kept.at(-1))) kept.push(index);
    return kept;
  }

  function drawName(pen, row, area, y, isSelected) {
    const text = taiyi.shortened(row.module || "model", Math.floor((area.left - 18) / 6));
    pen.fillStyle = taiyi.ink(isSelected ? "accent" : "muted");
    pen.fillText(isSelected ? `${text} ▸` : text, area.left - 6, area.top + y);
  }

  function drawOverlay() {
    if (!shown) return;
    const { area, width, height, rows } = shown;
    const pen = taiyi.paper(find("heat-overlay"), width, height);
    taiyi.drawCursor(pen, area);
    if (document.activeElement !== find("heat-overlay")) return;
    const rowHeight = area.height / rows.length;
    pen.strokeStyle = taiyi.ink("text");
    pen.lineWidth = 2;
    const x = area.left + at.column;
    pen.strokeRect(x - 4, area.top + at.row * rowHeight - 2, 8, rowHeight + 4);
  }

  const rowAt = (y) => {
    const row = Math.floor(((y - shown.area.top) / shown.area.height) * shown.rows.length);
    return row >= 0 && row < shown.rows.length ? row : null;
  };

  function onHover(place) {
    const row = place && rowAt(place.y);
    find("heat-reading").textContent =
      row === null ? "" : reading(row, Math.floor(place.x - shown.area.left));
  }

  function onClick(place) {
    const row = rowAt(place.y);
    if (row !== null) taiyi.selectModule(shown.rows[row].module);
  }

  /** What stands at a row and a pixel column, in words. */
  function reading(row, column) {
    const { rows, raster, area } = shown;
    const [first, last] = taiyi.shownSteps();
    const step = first + (column / area.width) * (last - first);
    const cell = row * raster.columns + Math.min(Math.max(column, 0), raster.columns - 1);
    const name = taiyi.shortened(rows[row].module || "model", 60);
    return `${name} · ${stepsAt(rows[row], step)} · ${valueAt(raster, cell)}`;
  }

  function stepsAt(row, step) {
    const place = taiyi.state.compared === "second" ? 1 : 0;
    const { start, end } = (row.sources[place] ?? row.sources.find(Boolean)).chunk;
    const column = Math.max(
      start.findLastIndex((from) => from <= step),
      0,
    );
    const [from, to] = [start[column], end[column]].map(taiyi.whole);
    return from === to ? `step ${from}` : `steps ${from} to ${to}`;
  }

  function valueAt(raster, cell) {
    const { ABSENT, INF, NAN } = taiyi.flags;
    const flag = raster.flags[cell];
    if (flag === ABSENT) return "nothing was taken";
    if (flag === NAN) return "NaN among the values";
    if (flag === INF) return "Inf among the values";
    const value = raster.values[cell];
    if (taiyi.showsRatio()) return `second is ${taiyi.numeral(2 ** value)} × first`;
    return `${taiyi.state.quantity} ${taiyi.numeral(value)}`;
  }

  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  function onKey(event) {
    const move = MOVES[event.key];
    if (move) walk(move, event.shiftKey ? 40 : 8);
    else if (event.key === "Enter") taiyi.selectModule(shown.rows[at.row].module);
    else if (event.key === "Escape") taiyi.set({ range: null });
    else return;
    event.preventDefault();
  }

  function walk([down, right], stride) {
    const within = (value, most) => Math.min(Math.max(value, 0), most);
    at = {
      row: within(at.row + down, shown.rows.length - 1),
      column: within(at.column + right * stride, shown.area.width - 1),
    };
    const [first, last] = taiyi.shownSteps();
    taiyi.set({ cursor: Math.round(first + (at.column / shown.area.width) * (last - first)) });
    const told = reading(at.row, at.column);
    find("heat-reading").textContent = told;
    taiyi.announce(told);
  }

  /** The same numbers as a table, for those who do not see the colours. */
  function fillTable() {
    const home = find("heat-table");
    if (!home.open || !shown) return;
    const body = shown.rows.map(({ module, series, sources }) => {
      const place = series[0] ? 0 : 1;
      const { min, max } = extremes(sources[place]);
      const { nan, inf } = series[place];
      const cells = [taiyi.numeral(taiyi.number(series[place].latest) ?? NaN), min, max, nan, inf];
      return tableRow(module, cells.map(String));
    });
    const head = ["module", "latest", "least", "most", "NaN", "Inf"];
    const heads = head.map((text) => element("th", { scope: "col" }, text));
    home
      .querySelector("table")
      .replaceChildren(
        element("thead", {}, element("tr", {}, ...heads)),
        element("tbody", {}, ...body),
      );
  }

  const tableRow = (module, cells) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, taiyi.shortened(module, 60)),
      ...cells.map((text) => element("td", {}, text)),
    );

  function extremes({ chunk, row }) {
    let [least, most] = [Infinity, -Infinity];
    const columns = chunk.start.length;
    for (let cell = row * columns; cell < (row + 1) * columns; cell += 1) {
      const { min, max } = taiyi.cell(chunk, cell);
      if (min < least) least = min;
      if (max > most) most = max;
    }
    if (least > most) return { min: "–", max: "–" };
    const [min, max] = taiyi.numerals([least, most]);
    return { min, max };
  }

  taiyi.extremes = extremes;
})(taiyi);
