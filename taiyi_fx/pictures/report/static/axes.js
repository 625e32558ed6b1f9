"use strict";

/* What heat maps and curves share: scales, ticks, the axis of steps, and the pointer on it. */
((taiyi) => {
  const FONT = "11px system-ui, -apple-system, 'Segoe UI', sans-serif";
  const RIGHT = 22;
  const FEW_DECADES = 3;
  const GAP = 8;

  /**
   * @typedef {object} Area The part of a canvas that shows data, in CSS pixels.
   * @property {number} left
   * @property {number} top
   * @property {number} width
   * @property {number} height
   */

  /**
   * A canvas, cleared and sharp.
   * @param {HTMLCanvasElement} canvas
   * @param {number} width In CSS pixels.
   * @param {number} height
   * @returns {CanvasRenderingContext2D}
   */
  taiyi.paper = (canvas, width, height) => {
    const density = devicePixelRatio || 1;
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(density, density);
    pen.font = FONT;
    return pen;
  };

  /**
   * Where data go on a canvas of a width: left and right the same for all, so that steps stand in
   * line.
   * @returns {Area}
   */
  taiyi.areaOf = (width, top, height) => {
    const left = Math.round(Math.min(170, Math.max(64, width * 0.19)));
    return { left, top, width: Math.max(Math.floor(width - left - RIGHT), 40), height };
  };

  /**
   * A scale between values and pixels.
   * @returns {{at: (value: number) => number, value: (pixel: number) => number}}
   */
  taiyi.scale = ([low, high], [from, to], isLog = false) => {
    const forth = isLog ? Math.log10 : (value) => value;
    const back = isLog ? (value) => 10 ** value : (value) => value;
    const [first, last] = [forth(low), forth(high)];
    const span = last - first || 1;
    return {
      at: (value) => from + ((forth(value) - first) / span) * (to - from),
      value: (pixel) => back(first + ((pixel - from) / (to - from || 1)) * span),
    };
  };

  /** Round numbers between two. */
  taiyi.ticks = ([low, high], most) => {
    const rough = (high - low) / Math.max(most, 1);
    if (!(rough > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    return Array.from({ length: Math.max(count, 0) }, (_, k) =>
      Number(((first + k) * step).toPrecision(12)),
    );
  };

  /**
   * Round numbers for a log scale: powers of ten, with 2 and 5 times those where there are few,
   * or what a linear scale would have where there is less than one.
   */
  taiyi.logTicks = ([low, high], most) => {
    const [first, last] = [Math.floor(Math.log10(low)), Math.floor(Math.log10(high) + 1e-9)];
    const decades = Math.log10(high / low);
    if (decades < 0.7) return taiyi.ticks([low, high], most).filter((value) => value > 0);
    const stride = Math.max(Math.ceil(decades / most), 1);
    const count = Math.floor((last - first) / stride) + 1;
    const powers = Array.from({ length: count }, (_, k) => 10 ** (first + k * stride));
    const factors = decades < FEW_DECADES ? [1, 2, 5] : [1];
    const all = powers.flatMap((power) => factors.map((factor) => power * factor));
    return all.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  };

  /**
   * Those of some labels in a line that stand clear of each other and of what is there already.
   * @param {CanvasRenderingContext2D} pen
   * @param {{x: number, text: string}[]} labels Centred at their places, from left to right.
   * @param {[number, number]} room The pixels free for them.
   * @returns {{x: number, text: string}[]}
   */
  taiyi.clearLabels = (pen, labels, [from, to]) => {
    let free = from;
    return labels.filter(({ x, text }) => {
      const half = pen.measureText(text).width / 2;
      if (x - half < free || x + half > to) return false;
      free = x + half + GAP;
      return true;
    });
  };

  /** The scale of the steps shown over an area. */
  taiyi.stepScale = (area) => taiyi.scale(taiyi.shownSteps(), [area.left, area.left + area.width]);

  /** Draws the axis of steps under an area, and epochs and restarts over it. */
  taiyi.drawSteps = (pen, area) => {
    const scale = taiyi.stepScale(area);
    const bottom = area.top + area.height;
    pen.save();
    pen.fillStyle = taiyi.ink("muted");
    pen.strokeStyle = taiyi.ink("line");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const steps = taiyi.ticks(taiyi.shownSteps(), area.width / 90).filter(Number.isInteger);
    const labels = steps.map((step) => ({ x: scale.at(step), text: taiyi.whole(step) }));
    for (const { x } of labels) line(pen, [x, bottom], [x, bottom + 4]);
    for (const { x, text } of taiyi.clearLabels(pen, labels, [-Infinity, Infinity])) {
      pen.fillText(text, x, bottom + 7);
    }
    pen.restore();
  };

  function line(pen, from, to) {
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
  }

  taiyi.line = line;

  /** Draws epochs as thin lines, restarts as dashed ones. */
  taiyi.drawBoundaries = (pen, area, ink) => {
    const [run] = taiyi.runs();
    const scale = taiyi.stepScale(area);
    const isShown = (step) => step > taiyi.shownSteps()[0] && step < taiyi.shownSteps()[1];
    pen.save();
    pen.strokeStyle = ink;
    pen.lineWidth = 1;
    const draw = (step) =>
      line(pen, [scale.at(step), area.top], [scale.at(step), area.top + area.height]);
    run.epochs
      .map(([, first]) => first)
      .filter(isShown)
      .forEach(draw);
    pen.setLineDash([4, 3]);
    run.sessions.slice(1).filter(isShown).forEach(draw);
    pen.restore();
  };

  /** Draws what was found at its steps: as lines, with heads on a strip that has room over it. */
  taiyi.drawFindings = (pen, area, hasHeads = false) => {
    const scale = taiyi.stepScale(area);
    const [first, last] = taiyi.shownSteps();
    pen.save();
    pen.setLineDash([2, 3]);
    for (const found of taiyi.findings().toReversed()) {
      if (found.step < first || found.step > last) continue;
      const x = scale.at(found.step);
      pen.strokeStyle = pen.fillStyle = taiyi.ink(taiyi.lookOfFinding(found));
      line(pen, [x, area.top], [x, area.top + area.height]);
      if (hasHeads) drawHead(pen, x, area.top);
    }
    pen.restore();
  };

  function drawHead(pen, x, y) {
    pen.beginPath();
    for (const [dx, dy] of [[-5, -9], [5, -9], [0, 0]]) pen.lineTo(x + dx, y + dy);
    pen.fill();
  }

  /** Draws the step under the pointer. */
  taiyi.drawCursor = (pen, area) => {
    const { cursor } = taiyi.state;
    const [first, last] = taiyi.shownSteps();
    if (cursor === null || cursor < first || cursor > last) return;
    const x = taiyi.stepScale(area).at(cursor);
    pen.strokeStyle = taiyi.ink("text");
    pen.lineWidth = 1;
    line(pen, [x, area.top], [x, area.top + area.height]);
  };

  const ofPointer = (event, canvas) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };

  /**
   * Has a canvas follow the pointer: it moves the cursor, a drag and Ctrl with the wheel zoom on
   * steps, a double click shows all steps.
   * @param {HTMLCanvasElement} canvas
   * @param {() => Area} areaOf
   * @param {{hover?: (place: object | null) => void, click?: (place: object) => void}} listeners
   */
  taiyi.followPointer = (canvas, areaOf, { hover = () => {}, click = () => {} } = {}) => {
    let from = null;
    const stepAt = (x) => Math.round(taiyi.stepScale(areaOf()).value(x));
    const move = (event) => {
      const place = ofPointer(event, canvas);
      if (from) band(canvas, areaOf(), from.x, place.x);
      const { left, width } = areaOf();
      const isInside = place.x >= left && place.x <= left + width;
      setCursor(isInside ? stepAt(place.x) : null);
      hover(isInside ? place : null);
    };
    const end = (event) => {
      const place = ofPointer(event, canvas);
      if (!from) return;
      const isDrag = Math.abs(place.x - from.x) > 5;
      if (isDrag) zoomTo(stepAt(from.x), stepAt(place.x));
      else click(place);
      from = null;
      band(canvas, null);
    };
    const leave = () => {
      setCursor(null);
      hover(null);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = ofPointer(event, canvas);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointerleave", leave);
    canvas.addEventListener("dblclick", () => taiyi.set({ range: null }));
    canvas.addEventListener(
      "wheel",
      (event) => onWheel(event, stepAt(ofPointer(event, canvas).x)),
      {
        passive: false,
      },
    );
  };

  function setCursor(cursor) {
    if (cursor !== taiyi.state.cursor) taiyi.set({ cursor });
  }

  /** The stretch being dragged over, as a child of the canvas's home. */
  function band(canvas, area, one = 0, other = 0) {
    const home = canvas.parentElement;
    home.querySelector(".drag")?.remove();
    if (!area || Math.abs(one - other) <= 5) return;
    const made = taiyi.element("div", { class: "drag" });
    made.style.left = `${Math.min(one, other)}px`;
    made.style.width = `${Math.abs(one - other)}px`;
    made.style.top = `${area.top}px`;
    made.style.height = `${area.height}px`;
    home.append(made);
  }

  function zoomTo(one, other) {
    const [first, last] = taiyi.axisSteps();
    const from = Math.max(Math.min(one, other), first);
    const to = Math.min(Math.max(one, other), last);
    const isAll = from <= first && to >= last;
    taiyi.set({ range: isAll ? null : [from, Math.max(to, from + 1)] });
  }

  function onWheel(event, step) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const [from, to] = taiyi.shownSteps();
    const factor = Math.exp(event.deltaY / 300);
    const narrowed = [step - (step - from) * factor, step + (to - step) * factor].map(Math.round);
    if (narrowed[1] - narrowed[0] >= 1) zoomTo(...narrowed);
  }

  /** Draws anew when an element's width changes. */
  taiyi.onResize = (element, draw) => {
    let width = element.clientWidth;
    new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      draw();
    }).observe(element);
  };
})(taiyi);
