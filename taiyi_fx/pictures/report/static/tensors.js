"use strict";

/* Tensors of one series over time: a heat map of positions by steps, and the line of one step. */
((taiyi) => {
  const HEIGHT = 220;
  const [TOP, BOTTOM] = [8, 26];
  const BAD_SHARE = 0.08;
  const { find } = taiyi;
  let shown = null;
  let picked = null;
  let turn = 0;

  /** Sets the panel up: it follows the state from here on. */
  taiyi.startTensors = () => {
    find("tensor-pick").addEventListener("change", ({ target }) => {
      picked = target.value;
      taiyi.drawTensors();
    });
    taiyi.followPointer(find("tensor-overlay"), () => shown.area, {
      hover: (place) => {
        find("tensor-reading").textContent = place ? reading(place) : "";
      },
    });
    taiyi.on(["selection"], () => {
      picked = null;
    });
    taiyi.on(["selection", "mode", "range", "theme", "updates", "colourScale"], taiyi.drawTensors);
    taiyi.on(["cursor"], drawLine);
    taiyi.onResize(find("tensors"), taiyi.drawTensors);
  };

  /** Draws the tensors picked, as soon as they are there; hides the panel where there are none. */
  taiyi.drawTensors = async () => {
    turn += 1;
    const mine = turn;
    const choices = choicesOf();
    find("tensors").hidden = choices.length === 0;
    find("nav-tensors").hidden = choices.length === 0;
    if (choices.length === 0) return;
    const choice = choices.find(({ key }) => key === picked) ?? choices[0];
    const pairs = choices.map(({ key, text }) => [key, text]);
    taiyi.fillSelect(find("tensor-pick"), pairs, choice.key);
    const chunk = await taiyi.chunk(choice.run, choice.series.chunk);
    if (mine !== turn) return;
    shown = { ...choice, chunk, ...measured(chunk) };
    draw();
  };

  /** Tensors of what is selected first. */
  function choicesOf() {
    const modules = taiyi.selectedModules();
    const all = taiyi.runs().flatMap((run, place) =>
      taiyi.tensorSeries(run).map((series) => ({
        run,
        series,
        key: `${place} ${series.chunk}`,
        text: `${taiyi.shortened(series.module, 50)} · ${taiyi.shortened(series.quantity, 40)}${place ? ` · ${taiyi.shortened(run.name, 24)}` : ""}`,
      })),
    );
    const isOther = ({ series }) => (modules.has(series.module) ? 0 : 1);
    return all.sort((one, other) => isOther(one) - isOther(other));
  }

  function measured(chunk) {
    const width = find("tensors").clientWidth;
    const area = taiyi.areaOf(width, TOP, HEIGHT - TOP - BOTTOM);
    const raster = taiyi.raster(positions(chunk), taiyi.shownSteps(), area.width);
    return { width, area, ...taiyi.colouring(raster, taiyi.state.colourScale !== "linear") };
  }

  const longest = ({ entry }) => entry.arrays.find(({ name }) => name === "values").shape[1];

  /** How many rows are for counts of what is not finite, over those of positions. */
  const extraOf = (chunk) =>
    chunk.nan || chunk.inf ? Math.max(1, Math.round(longest(chunk) * BAD_SHARE)) : 0;

  /** Flags of rows that tell at which steps a histogram has NaN or Inf. */
  function extraRows(chunk) {
    const common = { start: chunk.step, end: chunk.step, nan: chunk.nan, inf: chunk.inf };
    const mean = new Float32Array(chunk.step.length).fill(NaN);
    return Array.from({ length: extraOf(chunk) }, () => ({ chunk: { ...common, mean }, row: 0 }));
  }

  /** The tensors turned: a row for each position, the last at the top. */
  function positions(chunk) {
    const [count, length] = [chunk.step.length, longest(chunk)];
    const mean = new Float32Array(count * length);
    const [nan, inf] = [new Uint8Array(count * length), new Uint8Array(count * length)];
    for (let k = 0; k < count; k += 1) {
      const isBroken = isAllBad(chunk, k);
      for (let p = 0; p < length; p += 1) {
        const [value, cell] = [chunk.values[k * length + p], (length - 1 - p) * count + k];
        mean[cell] = Number.isFinite(value) && !isBroken ? value : NaN;
        nan[cell] = isBroken || (Number.isNaN(value) && p < chunk.length[k]) ? 1 : 0;
        inf[cell] = Math.abs(value) === Infinity ? 1 : 0;
      }
    }
    const turned = { start: chunk.step, end: chunk.step, mean, nan, inf };
    const rows = Array.from({ length }, (_, row) => ({ chunk: turned, row }));
    return [...extraRows(chunk), ...rows];
  }

  /** Whether a histogram has nothing finite at all at a step. */
  function isAllBad(chunk, k) {
    if (!chunk.nan?.[k]) return false;
    const length = longest(chunk);
    return chunk.values.subarray(k * length, (k + 1) * length).every((count) => count === 0);
  }

  function tellWhatIsLeftOut() {
    const { series, chunk } = shown;
    const [count, all] = [chunk.step.length, series.steps ?? chunk.step.length];
    const isThinned = count < all;
    find("tensor-note").textContent = isThinned
      ? `${taiyi.whole(count)} of ${taiyi.counted(all, "step")}: the first and the last, extremes, ` +
        `changes, and some between; ${taiyi.whole(all - count)} are left out`
      : "every step";
  }

  function draw() {
    tellWhatIsLeftOut();
    const { area, width, raster } = shown;
    const pen = taiyi.paper(find("tensor-canvas"), width, HEIGHT);
    taiyi.paintAbsent(pen, area);
    taiyi.paint(pen, area, raster, shown);
    taiyi.drawBoundaries(pen, area, taiyi.ink("boundary"));
    taiyi.drawSteps(pen, area);
    drawPositions(pen);
    taiyi.paintColourBar(find("tensor-bar"), shown);
    drawLine();
  }

  function drawPositions(pen) {
    const { area, chunk } = shown;
    const [length, extra] = [longest(chunk), extraOf(chunk)];
    pen.fillStyle = taiyi.ink("muted");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const places = taiyi.ticks([0, length - 1], 6).filter(Number.isInteger);
    const texts = positionTexts(chunk, places);
    for (const [k, place] of places.entries()) {
      const y = area.top + area.height - ((place + 0.5) / (length + extra)) * area.height;
      pen.fillText(texts[k], area.left - 7, y);
    }
    if (extra) pen.fillText("not finite", area.left - 7, area.top + 6);
  }

  /** What positions mean: indices, or the left edges of bins. */
  function positionTexts({ entry }, places) {
    const { kind, edges } = entry.bins;
    if (kind !== "edges") return places.map(taiyi.whole);
    return taiyi.numerals(places.map((place) => edges[place]));
  }

  /** The tensor of the step under the cursor, or else the latest. */
  function momentOf({ step }) {
    const { cursor } = taiyi.state;
    if (cursor === null) return step.length - 1;
    return Math.max(
      step.findLastIndex((one) => one <= cursor),
      0,
    );
  }

  function drawLine() {
    if (!shown) return;
    const { chunk, area, width, series } = shown;
    taiyi.drawCursor(taiyi.paper(find("tensor-overlay"), width, HEIGHT), area);
    const moment = momentOf(chunk);
    const most = longest(chunk);
    const values = Array.from(
      chunk.values.subarray(moment * most, moment * most + chunk.length[moment]),
    );
    const pen = taiyi.paper(find("tensor-line"), width, HEIGHT);
    drawProfile(pen, area, values);
    const step = taiyi.whole(chunk.step[moment]);
    find("tensor-step").textContent = `${taiyi.shortened(series.quantity, 40)} at step ${step}`;
  }

  function drawProfile(pen, area, values) {
    const finite = values.filter(Number.isFinite);
    const isLog = taiyi.state.colourScale !== "linear" && finite.every((value) => value > 0);
    const limits = [Math.min(...finite), Math.max(...finite)];
    if (!(limits[0] < limits[1])) limits[1] = limits[0] + 1;
    const scale = taiyi.scale(limits, [area.top + area.height, area.top + 4], isLog);
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const ticks = isLog ? taiyi.logTicks(limits, 5) : taiyi.ticks(limits, 5);
    const texts = taiyi.numerals(ticks);
    for (const [k, value] of ticks.entries()) {
      pen.strokeStyle = taiyi.ink("line");
      taiyi.line(pen, [area.left, scale.at(value)], [area.left + area.width, scale.at(value)]);
      pen.fillStyle = taiyi.ink("muted");
      pen.fillText(texts[k], area.left - 7, scale.at(value));
    }
    drawStairs(pen, area, values, scale);
    drawPlaces(pen, area, values.length);
  }

  function drawStairs(pen, area, values, scale) {
    const wide = area.width / values.length;
    pen.strokeStyle = taiyi.ink("line-0");
    pen.lineWidth = 1.6;
    pen.beginPath();
    values.forEach((value, k) => {
      if (!Number.isFinite(value)) return;
      pen.lineTo(area.left + k * wide, scale.at(value));
      pen.lineTo(area.left + (k + 1) * wide, scale.at(value));
    });
    pen.stroke();
  }

  function drawPlaces(pen, area, count) {
    pen.fillStyle = taiyi.ink("muted");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const places = taiyi.ticks([0, count - 1], area.width / 80).filter(Number.isInteger);
    const labels = places.map((place, k) => ({
      x: area.left + ((place + 0.5) / count) * area.width,
      text: positionTexts(shown.chunk, places)[k],
    }));
    for (const { x, text } of taiyi.clearLabels(pen, labels, [-Infinity, Infinity])) {
      pen.fillText(text, x, area.top + area.height + 7);
    }
  }

  /** How many elements of a histogram are not finite. */
  const badText = ({ nan, inf }, moment) =>
    `${taiyi.whole(nan?.[moment] ?? 0)} NaN, ${taiyi.whole(inf?.[moment] ?? 0)} Inf`;

  function reading({ x, y }) {
    const { area, raster, chunk } = shown;
    const row = Math.floor(((y - area.top) / area.height) * raster.rows);
    if (row < 0 || row >= raster.rows) return "";
    const cell = row * raster.columns + Math.floor(x - area.left);
    const step = taiyi.whole(chunk.step[momentOf(chunk)]);
    if (row < extraOf(chunk)) return `step ${step} · ${badText(chunk, momentOf(chunk))}`;
    const [place] = positionTexts(chunk, [raster.rows - 1 - row]);
    const { NAN, INF } = taiyi.flags;
    const flag = { [NAN]: "NaN", [INF]: "Inf" }[raster.flags[cell]];
    return `step ${step} · ${place} · ${flag ?? taiyi.numeral(raster.values[cell])}`;
  }
})(taiyi);
