"use strict";

/* Lines of numbers by step: their points, their scale, and how they are drawn. */
((taiyi) => {
  const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [1, 5]];

  /**
   * What to draw of a line: a point for each of its columns, or for each pixel where those are
   * denser.
   */
  taiyi.pointsOf = ({ chunk, series }, area) => {
    const scale = taiyi.stepScale(area);
    const [first, last] = taiyi.shownSteps();
    const columns = chunk.start.length;
    const points = [];
    for (let column = 0; column < columns; column += 1) {
      if (chunk.end[column] < first || chunk.start[column] > last) continue;
      const cell = taiyi.cell(chunk, series.row * columns + column);
      if (series.undefined) cell.nan = 0;
      const isEmpty = Number.isNaN(cell.mean) && !cell.nan && !cell.inf;
      if (isEmpty) continue;
      addPoint(points, scale.at((chunk.start[column] + chunk.end[column]) / 2), cell);
    }
    return points;
  };

  function addPoint(points, x, cell) {
    const previous = points.at(-1);
    if (!previous || Math.floor(previous.x) !== Math.floor(x)) {
      points.push({ ...cell, x, weight: 1 });
      return;
    }
    previous.nan += cell.nan;
    previous.inf += cell.inf;
    if (Number.isNaN(cell.mean)) return;
    const weight = Number.isNaN(previous.mean) ? 0 : previous.weight;
    previous.mean = ((weight ? previous.mean : 0) * weight + cell.mean) / (weight + 1);
    previous.min = weight ? Math.min(previous.min, cell.min) : cell.min;
    previous.max = weight ? Math.max(previous.max, cell.max) : cell.max;
    previous.weight = weight + 1;
  }

  /** Whether a scale is a log one: as chosen, or where sizes are positive and far apart. */
  taiyi.usesLog = (points, chosen, unit = "") => {
    if (chosen !== "auto") return chosen === "log";
    if (taiyi.isShare(unit)) return false;
    const [low, high] = spanOf(points, false);
    return low > 0 && high / low > 20;
  };

  function spanOf(points, isLog) {
    let [low, high] = [Infinity, -Infinity];
    for (const { min, max } of points.flat()) {
      if (min < low && (!isLog || min > 0)) low = min;
      if (max < low && isLog && max > 0) low = max;
      if (max > high) high = max;
    }
    return [low, high];
  }

  /** The limits of a scale of values, with some room. */
  taiyi.limitsOf = (points, isLog) => {
    const [low, high] = spanOf(points, isLog);
    if (!(low <= high)) return isLog ? [0.1, 1] : [0, 1];
    if (isLog) return low === high ? [low / 2, high * 2] : [low * 0.9, high * 1.1];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  };

  /** Draws the axis of values, with about so many of them. */
  taiyi.drawValues = (pen, area, { limits, scale, isLog }, most = 6) => {
    const values = isLog ? taiyi.logTicks(limits, most + 1) : taiyi.ticks(limits, most);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const texts = taiyi.numerals(values);
    let free = Infinity;
    for (const [k, value] of values.entries()) {
      const y = scale.at(value);
      pen.strokeStyle = taiyi.ink("line");
      taiyi.line(pen, [area.left, y], [area.left + area.width, y]);
      if (y > free) continue;
      free = y - 12;
      pen.fillStyle = taiyi.ink("muted");
      pen.fillText(texts[k], area.left - 7, y);
    }
  };

  /** Draws lines within their bands; those of a second run are dashed. */
  taiyi.drawLines = (pen, { area, lines }, points, { scale, isLog }) => {
    const inks = taiyi.lineInks();
    pen.save();
    pen.beginPath();
    pen.rect(area.left, 0, area.width, area.top + area.height + 1);
    pen.clip();
    const drawn = (value) => !Number.isNaN(value) && (!isLog || value > 0);
    lines.forEach(({ colour }, k) =>
      drawBand(
        pen,
        points[k].filter((p) => drawn(p.mean)),
        scale,
        inks[colour],
        isLog,
      ),
    );
    lines.forEach(({ colour, place }, k) => {
      pen.setLineDash(DASHES[Math.min(place, DASHES.length - 1)]);
      drawLine(pen, points[k], scale, inks[colour], drawn);
    });
    pen.setLineDash([]);
    lines.forEach((_, k) => drawNonFinite(pen, points[k], area));
    pen.restore();
  };

  function drawBand(pen, points, scale, ink, isLog) {
    if (!points.some(({ min, max }) => max > min)) return;
    const floor = isLog ? Math.min(...points.map((p) => (p.min > 0 ? p.min : p.mean))) : 0;
    const low = (value) => (isLog && value <= 0 ? floor : value);
    pen.beginPath();
    points.forEach(({ x, max }) => pen.lineTo(x, scale.at(max)));
    points.toReversed().forEach(({ x, min }) => pen.lineTo(x, scale.at(low(min))));
    pen.globalAlpha = 0.2;
    pen.fillStyle = ink;
    pen.fill();
    pen.globalAlpha = 1;
  }

  function drawLine(pen, points, scale, ink, drawn) {
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    pen.beginPath();
    let isDown = false;
    for (const { x, mean } of points) {
      if (!drawn(mean)) isDown = false;
      else if (isDown) pen.lineTo(x, scale.at(mean));
      else pen.moveTo(x, scale.at(mean));
      isDown = drawn(mean);
    }
    pen.stroke();
    if (points.length < 2 || averageGap(points) > 12)
      dots(
        pen,
        points.filter((p) => drawn(p.mean)),
        scale,
      );
  }

  const averageGap = (points) => (points.at(-1).x - points[0].x) / (points.length - 1);

  function dots(pen, points, scale) {
    for (const { x, mean } of points) {
      pen.beginPath();
      pen.arc(x, scale.at(mean), 2.6, 0, 2 * Math.PI);
      pen.fill();
    }
  }

  /** NaN as crosses, Inf as triangles, at the top edge; where they are dense some stand for all. */
  function drawNonFinite(pen, points, area) {
    pen.strokeStyle = pen.fillStyle = taiyi.ink("alert");
    pen.lineWidth = 1.6;
    let free = -Infinity;
    for (const { x, nan, inf } of points) {
      if (x < free || !(nan || inf)) continue;
      (nan ? cross : triangle)(pen, x, area.top - 6);
      free = x + 9;
    }
  }

  function cross(pen, x, y) {
    taiyi.line(pen, [x - 3, y - 3], [x + 3, y + 3]);
    taiyi.line(pen, [x - 3, y + 3], [x + 3, y - 3]);
  }

  function triangle(pen, x, y) {
    pen.beginPath();
    [
      [-4, 3],
      [4, 3],
      [0, -4],
    ].forEach(([dx, dy]) => pen.lineTo(x + dx, y + dy));
    pen.fill();
  }
})(taiyi);
