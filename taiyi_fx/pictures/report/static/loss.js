"use strict";

/* The loss over all other views, on their axis of steps, with its spikes and what was found. */
((taiyi) => {
  const LOWEST = 78;
  const [TOP, BOTTOM, ROW] = [14, 6, 15];
  const MOST = 8;
  const [BEFORE, ENOUGH, DEVIATIONS] = [128, 32, 6];
  const TO_SIGMA = 1.4826;
  const { find } = taiyi;
  const area = {};
  let lines = [];
  let turn = 0;

  /** Sets the strip up: it follows the state from here on. */
  taiyi.startLoss = () => {
    taiyi.followPointer(find("loss-overlay"), () => area);
    taiyi.on(["updates"], taiyi.drawLoss);
    taiyi.on(["range", "theme"], draw);
    taiyi.on(["cursor"], drawOverlay);
    taiyi.onResize(find("panels"), draw);
  };

  /** Draws the strip, as soon as its numbers are there; hides it where no loss was logged. */
  taiyi.drawLoss = async () => {
    turn += 1;
    const mine = turn;
    const wanted = taiyi.lossSeries().slice(0, MOST);
    const made = await Promise.all(wanted.map(lineOf));
    if (mine !== turn) return;
    lines = made;
    find("loss").hidden = lines.length === 0;
    find("panels").classList.toggle("has-loss", lines.length > 0);
    draw();
  };

  async function lineOf({ run, series, place }, colour) {
    const chunk = await taiyi.chunk(run, series.chunk);
    const line = { series, chunk, place, colour };
    return { ...line, spikes: spikesOf(line) };
  }

  /** Steps at which a loss begins to be far above those before it. */
  function spikesOf({ chunk, series }) {
    const columns = chunk.start.length;
    const earlier = [];
    const spikes = [];
    let wasFar = false;
    for (let column = 0; column < columns; column += 1) {
      const { mean, max } = taiyi.cell(chunk, series.row * columns + column);
      if (Number.isNaN(mean)) continue;
      const isSpike = earlier.length >= ENOUGH && isFar(max, earlier);
      if (isSpike && !wasFar) spikes.push(chunk.start[column]);
      wasFar = isSpike;
      earlier.push(mean);
      if (earlier.length > BEFORE) earlier.shift();
    }
    return spikes;
  }

  function isFar(value, earlier) {
    const middle = medianOf(earlier);
    const deviation = medianOf(earlier.map((one) => Math.abs(one - middle)));
    return value - middle > DEVIATIONS * TO_SIGMA * deviation && value > middle;
  }

  function medianOf(values) {
    const sorted = Float64Array.from(values).sort();
    return sorted[Math.floor(sorted.length / 2)];
  }

  /** As high as its numbers need at the left. */
  const sheetHeight = () => Math.max(LOWEST, TOP + ROW * lines.length + BOTTOM);
  const sheetWidth = () => find("loss").firstElementChild.clientWidth;

  function draw() {
    if (lines.length === 0) return;
    const width = sheetWidth();
    Object.assign(area, taiyi.areaOf(width, TOP, sheetHeight() - TOP - BOTTOM));
    const points = lines.map((line) => taiyi.pointsOf(line, area));
    const isLog = taiyi.usesLog(points, "auto");
    const limits = taiyi.limitsOf(points, isLog);
    const scale = taiyi.scale(limits, [TOP + area.height, TOP], isLog);
    const pen = taiyi.paper(find("loss-canvas"), width, sheetHeight());
    taiyi.drawValues(pen, area, { limits, scale, isLog }, 3);
    taiyi.drawBoundaries(pen, area, taiyi.ink("line-strong"));
    taiyi.drawLines(pen, { area, lines }, points, { scale, isLog });
    drawSpikes(pen);
    taiyi.drawFindings(pen, area, true);
    drawOverlay();
  }

  /** Spikes as small triangles under the line, pointing at it. */
  function drawSpikes(pen) {
    const scale = taiyi.stepScale(area);
    const [first, last] = taiyi.shownSteps();
    const bottom = area.top + area.height + BOTTOM;
    const spikes = new Set(lines.flatMap((line) => line.spikes));
    pen.fillStyle = taiyi.ink("warn-line");
    for (const step of spikes) {
      if (step < first || step > last) continue;
      const x = scale.at(step);
      pen.beginPath();
      for (const [dx, dy] of [[-4, 0], [4, 0], [0, -6]]) pen.lineTo(x + dx, bottom + dy);
      pen.fill();
    }
    find("loss-canvas").setAttribute("aria-label", spoken(spikes.size));
  }

  function spoken(spikes) {
    const names = [...new Set(lines.map(({ series }) => series.quantity))].join(", ");
    const found = taiyi.counted(taiyi.findings().length, "finding");
    return `${names} by steps, with ${taiyi.counted(spikes, "spike")} and ${found} marked`;
  }

  /** A loss's name, as far as several have other ones, and that of its run where there are several. */
  const nameOf = ({ series, place }) => {
    const { quantity, mode } = series;
    const ofRun = lines.filter((one) => one.place === place);
    const modes = ofRun.filter((one) => one.series.quantity === quantity).length;
    const name = modes > 1 && mode === "eval" ? `${quantity} (eval)` : quantity;
    if (taiyi.runs().length === 1) return name;
    return ofRun.length > 1 ? `${name} ${taiyi.runName(place)}` : taiyi.runName(place);
  };

  /** The cursor, and left of the strip each loss with its number there, or its latest. */
  function drawOverlay() {
    if (lines.length === 0) return;
    const pen = taiyi.paper(find("loss-overlay"), sheetWidth(), sheetHeight());
    taiyi.drawCursor(pen, area);
    const inks = taiyi.lineInks();
    const room = Math.floor((area.left - 50) / 6);
    if (room < 8) return;
    pen.textBaseline = "top";
    lines.forEach((line, k) => {
      pen.fillStyle = inks[line.colour];
      const { text } = taiyi.readingOf(line, taiyi.state.cursor);
      pen.fillText(taiyi.shortened(`${nameOf(line)} ${text}`, room), 0, TOP + ROW * k);
    });
  }
})(taiyi);
