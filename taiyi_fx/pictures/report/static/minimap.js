"use strict";

/* The whole graph in small, beside a graph that is larger than its pane: shows where one is. */
((taiyi) => {
  const WIDEST = 80;
  const MARGIN = 14;
  const FAR = 1.4;
  const { find } = taiyi;
  let drawn = null;
  let scale = 1;

  /** Sets the map up: a press or a drag on it moves the graph. */
  taiyi.startMinimap = () => {
    const map = find("minimap");
    const go = ({ clientX, clientY }) => {
      const { left, top } = map.getBoundingClientRect();
      centreOn((clientX - left) / scale, (clientY - top) / scale);
    };
    map.addEventListener("pointerdown", (event) => {
      map.setPointerCapture(event.pointerId);
      go(event);
    });
    map.addEventListener("pointermove", (event) => {
      if (map.hasPointerCapture(event.pointerId)) go(event);
    });
    find("graph-pane").addEventListener("scroll", paint);
    taiyi.on(["theme"], paint);
    new ResizeObserver(paint).observe(find("graph-pane"));
  };

  /**
   * Shows a graph in the map.
   * @param {{plan: object, boxes: Map<number, object>, view: object}} graph
   */
  taiyi.drawMinimap = (graph) => {
    drawn = graph;
    paint();
  };

  /** The picture's place in the pane, and its zoom. */
  function placing() {
    const picture = find("graph").firstElementChild;
    const home = find("graph-pane").getBoundingClientRect();
    const { left, top, width } = picture.getBoundingClientRect();
    return { x: home.left - left, y: home.top - top, zoom: width / size()[0] };
  }

  const size = () => [drawn.plan.width + 2 * MARGIN, drawn.plan.height + 2 * MARGIN];

  function paint() {
    if (!drawn) return;
    const [width, height] = size();
    const { clientWidth, clientHeight } = find("graph-pane");
    const { x, y, zoom } = placing();
    const across = find("graph-home").clientWidth; // the pane's own width depends on the map
    const isLarge = width * zoom > FAR * across || height * zoom > FAR * clientHeight;
    find("minimap").hidden = !isLarge;
    if (!isLarge) return;
    scale = Math.min(WIDEST / width, (clientHeight - 24) / height);
    const pen = taiyi.paper(find("minimap"), width * scale, height * scale);
    find("minimap").style.width = `${width * scale}px`;
    pen.scale(scale, scale);
    drawBoxes(pen);
    pen.lineWidth = 1.5 / scale;
    pen.strokeStyle = taiyi.ink("accent");
    pen.strokeRect(x / zoom, y / zoom, clientWidth / zoom, clientHeight / zoom);
  }

  function drawBoxes(pen) {
    const { plan, boxes, view } = drawn;
    pen.lineWidth = 1 / scale;
    pen.strokeStyle = taiyi.ink("cluster-line");
    for (const frame of plan.clusters.values())
      pen.strokeRect(frame.x + MARGIN, frame.y + MARGIN, frame.width, frame.height);
    for (const [index, { x, y }] of plan.boxes) {
      const { width, height } = boxes.get(index);
      pen.fillStyle = taiyi.ink(inkOf(boxes.get(index), view.alarms.get(index)));
      pen.fillRect(x - width / 2 + MARGIN, y - height / 2 + MARGIN, width, height);
    }
  }

  /** What was found stands out most; then what is flagged. */
  function inkOf({ state }, alarm) {
    const look = alarm?.look ?? state;
    return { alert: "alert-line", warn: "warn-line" }[look] ?? "box-line";
  }

  function centreOn(x, y) {
    const pane = find("graph-pane");
    const now = placing();
    pane.scrollLeft += x * now.zoom - now.x - pane.clientWidth / 2;
    pane.scrollTop += y * now.zoom - now.y - pane.clientHeight / 2;
  }
})(taiyi);
