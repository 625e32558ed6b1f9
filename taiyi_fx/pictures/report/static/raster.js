"use strict";

/* Rows of numbers by step, brought to the pixel columns of a heat map, and painted. */
((taiyi) => {
  const ABSENT = 0;
  const UNDEFINED = 1;
  const FINITE = 2;
  const INF = 3;
  const NAN = 4;
  const COLOURS = 256;

  /** What a cell of a raster is. */
  taiyi.flags = { ABSENT, UNDEFINED, FINITE, INF, NAN };

  /**
   * @typedef {object} Raster
   * @property {number} rows
   * @property {number} columns One each for pixels of the area.
   * @property {Float64Array} values Means of finite numbers, row by row.
   * @property {Uint8Array} flags What each cell is: `taiyi.flags`.
   */

  /**
   * Rows over the steps shown.
   * @param {({chunk: object, row: number, undefined: boolean} | null)[]} sources Null for a row
   *   that has nothing; `undefined` where nothing defines its NaN.
   * @param {[number, number]} steps
   * @param {number} columns
   * @returns {Raster}
   */
  taiyi.raster = (sources, steps, columns) => {
    const size = sources.length * columns;
    const raster = {
      rows: sources.length,
      columns,
      values: new Float64Array(size),
      flags: new Uint8Array(size),
    };
    const counts = new Uint32Array(size);
    sources.forEach((source, row) => {
      if (source) fillRow(raster, counts, row, source, steps);
    });
    for (let cell = 0; cell < size; cell += 1)
      if (counts[cell]) raster.values[cell] /= counts[cell];
    return raster;
  };

  function fillRow(raster, counts, row, source, [first, last]) {
    const { chunk, row: place } = source;
    const { start, end } = chunk;
    const filled = filledColumns(chunk, place);
    const pitch = pitchOf(start, filled);
    const perStep = raster.columns / (last - first);
    for (let k = 0; k < filled.length; k += 1) {
      const column = filled[k];
      const next = k + 1 < filled.length ? start[filled[k + 1]] : Infinity;
      const reach = 1.5 * Math.max(pitch, gapAt(start, filled, k - 1), gapAt(start, filled, k + 1));
      const until = Math.min(next, Math.max(end[column] + 1, start[column] + reach));
      const from = Math.max(Math.floor((start[column] - first) * perStep), 0);
      const to = Math.min(Math.max(Math.ceil((until - first) * perStep), from + 1), raster.columns);
      if (start[column] > last || from >= to || until < first) continue;
      add(raster, counts, row * raster.columns, from, to, numbersAt(source, column));
    }
  }

  const cellOf = ({ start }, row, column) => row * start.length + column;

  function filledColumns(chunk, row) {
    const filled = [];
    for (let column = 0; column < chunk.start.length; column += 1) {
      const cell = cellOf(chunk, row, column);
      const isNumber = !Number.isNaN(chunk.mean[cell]);
      if (isNumber || chunk.nan?.[cell] || chunk.inf?.[cell]) filled.push(column);
    }
    return filled;
  }

  /** The steps from a number to the next, as a schedule that changes has them there. */
  const gapAt = (start, filled, k) =>
    k >= 0 && k + 1 < filled.length ? start[filled[k + 1]] - start[filled[k]] : 0;

  const pitchOf = (start, filled) =>
    filled.length < 2 ? 1 : (start[filled.at(-1)] - start[filled[0]]) / (filled.length - 1);

  function numbersAt({ chunk, row, undefined: isUndefined }, column) {
    const cell = cellOf(chunk, row, column);
    const mean = chunk.mean[cell];
    const flags = [
      chunk.nan?.[cell] ? (isUndefined ? UNDEFINED : NAN) : ABSENT,
      chunk.inf?.[cell] ? INF : ABSENT,
      Number.isNaN(mean) ? ABSENT : FINITE,
    ];
    return { mean, flag: Math.max(...flags) };
  }

  function add(raster, counts, base, from, to, { mean, flag }) {
    for (let cell = base + from; cell < base + to; cell += 1) {
      raster.flags[cell] = Math.max(raster.flags[cell], flag);
      if (Number.isNaN(mean)) continue;
      raster.values[cell] += mean;
      counts[cell] += 1;
    }
  }

  /**
   * log2 of the second raster over the first, cell by cell.
   * @param {Raster} first
   * @param {Raster} second
   * @returns {Raster}
   */
  taiyi.ratio = (first, second) => {
    const values = first.values.map((value, cell) =>
      Math.log2(Math.abs(second.values[cell] / value)),
    );
    const flags = first.flags.map((flag, cell) => {
      const other = second.flags[cell];
      if (Math.min(flag, other) < FINITE) return Math.min(flag, other);
      if (flag === FINITE && other === FINITE && !Number.isFinite(values[cell])) return ABSENT;
      return Math.max(flag, other);
    });
    return { ...first, values, flags };
  };

  /**
   * The limits of colours: nearly all finite cells lie between them, and each row's mean does, so
   * that a row that stands far out is seen among hundreds; NaN where there are none.
   * @param {Raster} raster
   * @param {(value: number) => number} measure
   * @returns {[number, number]}
   */
  taiyi.colourLimits = (raster, measure) => {
    const measured = new Float64Array(raster.values.length);
    let count = 0;
    let [least, most] = [Infinity, -Infinity];
    for (let row = 0; row < raster.rows; row += 1) {
      const before = count;
      let sum = 0;
      for (let cell = row * raster.columns; cell < (row + 1) * raster.columns; cell += 1) {
        const value = measure(raster.values[cell]);
        if (raster.flags[cell] !== FINITE || !Number.isFinite(value)) continue;
        measured[count++] = value;
        sum += value;
      }
      if (count === before) continue;
      least = Math.min(least, sum / (count - before));
      most = Math.max(most, sum / (count - before));
    }
    if (count === 0) return [NaN, NaN];
    const sorted = measured.subarray(0, count).sort();
    const [low, high] = [sorted[Math.floor((count - 1) * 0.01)], sorted[Math.ceil((count - 1) * 0.99)]];
    return [Math.min(low, least), Math.max(high, most)];
  };

  /**
   * Whether sizes far apart need a logarithmic scale: none is negative, and they span a factor of 20.
   * @param {Raster} raster
   * @returns {boolean}
   */
  taiyi.spansFar = (raster) => {
    let [least, most] = [Infinity, 0];
    for (let cell = 0; cell < raster.values.length; cell += 1) {
      if (raster.flags[cell] !== FINITE) continue;
      const value = raster.values[cell];
      if (value < 0) return false;
      if (value > 0 && value < least) least = value;
      if (value > most) most = value;
    }
    return most / least > 20;
  };

  /**
   * How a raster's values become colours.
   * @param {Raster} raster
   * @param {boolean} isLog By their size's logarithm.
   * @returns {object}
   */
  taiyi.colouring = (raster, isLog) => {
    const measure = isLog ? (value) => Math.log10(Math.abs(value)) : (value) => value;
    const valueOf = isLog ? (power) => 10 ** power : (value) => value;
    const labels = (measured) => taiyi.numerals(measured.map(valueOf));
    const limits = taiyi.colourLimits(raster, measure);
    const ends = limits.map(valueOf);
    const between = () =>
      isLog ? taiyi.logTicks(ends, 4).map(Math.log10) : taiyi.ticks(limits, 4);
    const ticks = limits[0] < limits[1] ? between() : [];
    return { raster, isLog, measure, map: taiyi.maps.viridis, limits, labels, ticks };
  };

  /** Whether a raster has a number that is exactly zero. */
  taiyi.hasZero = (raster) =>
    raster.values.some((value, cell) => value === 0 && raster.flags[cell] === FINITE);

  /**
   * Paints a raster onto an area.
   * @param {CanvasRenderingContext2D} pen
   * @param {object} area
   * @param {Raster} raster
   * @param {{measure: (value: number) => number, limits: [number, number], map: Uint32Array,
   *   isLog: boolean}} look
   */
  taiyi.paint = (pen, area, raster, look) => {
    const image = new ImageData(raster.columns, Math.round(area.height));
    const pixels = new Uint32Array(image.data.buffer);
    const shades = shadesOf(raster, look);
    for (let y = 0; y < image.height; y += 1) {
      const base = Math.floor((y / image.height) * raster.rows) * raster.columns;
      const at = y * image.width;
      for (let x = 0; x < image.width; x += 1) {
        const flag = raster.flags[base + x];
        pixels[at + x] = flag > FINITE ? striped(flag, x, y) : shades[base + x];
      }
    }
    const sheet = new OffscreenCanvas(image.width, image.height);
    sheet.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(sheet, area.left, area.top, area.width, area.height);
  };

  /** The colours of finite cells; those of absent ones let the paper through. */
  function shadesOf(raster, { measure, limits: [low, high], map, isLog }) {
    return Uint32Array.from(raster.values, (value, cell) => {
      if (raster.flags[cell] === ABSENT) return 0;
      if (raster.flags[cell] === UNDEFINED) return taiyi.undefinedShade;
      if (isLog && value === 0) return taiyi.zeroShade;
      const share = high > low ? (measure(value) - low) / (high - low) : 0.5;
      return map[Math.min(Math.max(Math.round(share * (COLOURS - 1)), 0), COLOURS - 1)];
    });
  }

  function striped(flag, x, y) {
    const [ink, gap] = flag === NAN ? taiyi.stripes.nan : taiyi.stripes.inf;
    const place = flag === NAN ? x + y : x - y + 1e4;
    return place % 6 < 4 ? ink : gap;
  }

  /** Absent cells show as a dotted paper: drawn first, under a raster. */
  taiyi.paintAbsent = (pen, area) => {
    pen.fillStyle = taiyi.ink("absent");
    pen.fillRect(area.left, area.top, area.width, area.height);
    pen.fillStyle = taiyi.ink("absent-dot");
    for (let y = area.top + 3; y < area.top + area.height; y += 8) {
      for (let x = area.left + 3; x < area.left + area.width; x += 8) pen.fillRect(x, y, 1, 1);
    }
  };

  /**
   * Draws a colour bar with its ticks.
   * @param {HTMLCanvasElement} canvas
   * @param {{map: Uint32Array, limits: [number, number], ticks: number[],
   *   labels: (measured: number[]) => string[]}} look
   */
  taiyi.paintColourBar = (canvas, look) => {
    const { map, limits, ticks, labels } = look;
    const [width, height, side] = [260, 32, 2];
    const pen = taiyi.paper(canvas, width, height);
    const image = new ImageData(COLOURS, 1);
    new Uint32Array(image.data.buffer).set(map);
    const sheet = new OffscreenCanvas(COLOURS, 1);
    sheet.getContext("2d").putImageData(image, 0, 0);
    pen.drawImage(sheet, side, 2, width - 2 * side, 10);
    pen.fillStyle = pen.strokeStyle = taiyi.ink("muted");
    pen.textBaseline = "top";
    const scale = taiyi.scale(limits, [side, width - side]);
    for (const value of ticks) taiyi.line(pen, [scale.at(value), 12], [scale.at(value), 15]);
    const texts = taiyi.barLabels(pen, look, [side, width - side]);
    pen.textAlign = "center";
    for (const { x, text } of texts) pen.fillText(text, x, 17);
    canvas.setAttribute("aria-label", `Colour bar: ${texts.map(({ text }) => text).join(", ")}`);
  };

  /**
   * The labels of a colour bar: its ends, and of the ticks those that stand clear; one where all
   * is one value, none where nothing is finite.
   * @returns {{x: number, text: string}[]} Centred at their places.
   */
  taiyi.barLabels = (pen, { limits, ticks, labels }, [from, to]) => {
    const [low, high] = limits;
    if (Number.isNaN(low)) return [];
    if (low === high) return [{ x: (from + to) / 2, text: labels([low])[0] }];
    const [least, most] = labels(limits);
    const [first, last] = [`≤ ${least}`, `${most} ≤`];
    const widthOf = (text) => pen.measureText(text).width;
    const scale = taiyi.scale(limits, [from, to]);
    const texts = labels(ticks);
    const inner = ticks.map((value, k) => ({ x: scale.at(value), text: texts[k] }));
    const room = [from + widthOf(first) + 8, to - widthOf(last) - 8];
    return [
      { x: from + widthOf(first) / 2, text: first },
      ...taiyi.clearLabels(pen, inner, room),
      { x: to - widthOf(last) / 2, text: last },
    ];
  };
})(taiyi);
