"use strict";

/* The page starts: first what is seen first, then the rest. */
((taiyi) => {
  async function start() {
    performance.mark("taiyi:start");
    taiyi.readHeader();
    taiyi.startChrome();
    taiyi.startFindings();
    taiyi.startDifferences();
    const hasGraph = taiyi.startGraph();
    if (hasGraph) taiyi.startLegend();
    taiyi.startLoss();
    taiyi.startHeatMap();
    const graph = hasGraph ? taiyi.redrawGraph() : null;
    await Promise.all([taiyi.drawLoss(), taiyi.drawHeatMap(), graph]);
    taiyi.showAlarm();
    taiyi.startSearch();
    performance.mark("taiyi:interactive");
    document.documentElement.dataset.ready = "true";
    taiyi.startCurves();
    taiyi.startTensors();
    taiyi.startEvents();
    await Promise.all([taiyi.drawCurves(), taiyi.drawTensors()]);
    taiyi.startLive();
    document.documentElement.dataset.ready = "all";
  }

  start();
})(taiyi);
