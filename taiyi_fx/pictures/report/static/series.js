"use strict";

/* Which series there are: of a quantity, of a selection, by severity; and the steps they span. */
((taiyi) => {
  const SEVERITY = { alert: 0, warn: 1, ok: 2 };

  /** The runs of the page: one, or several that are compared with the first. */
  taiyi.runs = () => taiyi.header.runs;

  /** Whether the heat map shows a run over the first. */
  taiyi.showsRatio = () => taiyi.state.compared.startsWith("ratio") && taiyi.runs().length > 1;

  /** The place of the run that the heat map shows. */
  taiyi.shownPlace = () => Number(taiyi.state.compared.replace("ratio", ""));

  /** The name of a run, short. */
  taiyi.runName = (place) => taiyi.shortened(taiyi.runs()[place].name, 24);

  /** The module of the first run that a series belongs to: its own, or that which it is aligned with. */
  taiyi.homeOf = ({ module, aligned }) => aligned ?? module;

  const isNumeric = (run, series) => run.chunks[series.chunk]?.kind === "numbers";

  /**
   * The quantities of numbers in the first run, in the order of their first series.
   * @returns {string[]}
   */
  taiyi.quantities = () => {
    const [run] = taiyi.runs();
    const numeric = run.series.filter((series) => isNumeric(run, series));
    return [...new Set(numeric.map((series) => series.quantity))];
  };

  /** The modes in which anything was taken. */
  taiyi.modes = () => [
    ...new Set(taiyi.runs().flatMap((run) => run.series.map((series) => series.mode))),
  ];

  /**
   * The series of a quantity in the present mode, in the order of execution.
   * @param {object} run
   * @param {string} quantity
   * @returns {object[]}
   */
  taiyi.seriesOf = (run, quantity) =>
    run.series
      .filter((series) => series.quantity === quantity && series.mode === taiyi.state.mode)
      .filter((series) => isNumeric(run, series))
      .sort((one, other) => one.chunk - other.chunk || one.row - other.row);

  /** The number of flagged series of a quantity in the first run, in all modes. */
  taiyi.alertsOf = (quantity) =>
    taiyi.runs()[0].series.filter((one) => one.quantity === quantity && one.state === "alert")
      .length;

  /**
   * The series to look at in the first run: flagged ones or, if there are none, unusual
   * ones; those of the present mode first, by quantities. Counts of non-finite numbers come last:
   * they say that something is not finite, the others where it came from.
   * @returns {object[]}
   */
  taiyi.urgent = () => {
    const [run] = taiyi.runs();
    const ofState = (state) =>
      run.series.filter((series) => series.state === state && isNumeric(run, series));
    const alerts = ofState("alert");
    const place = new Map(taiyi.quantities().map((quantity, k) => [quantity, k]));
    const isCount = ({ health }) => (health === "counts_non_finite" ? 1 : 0);
    const isOther = ({ mode }) => (mode === taiyi.state.mode ? 0 : 1);
    return (alerts.length ? alerts : ofState("warn")).sort(
      (one, other) =>
        isOther(one) - isOther(other) ||
        isCount(one) - isCount(other) ||
        place.get(one.quantity) - place.get(other.quantity) ||
        one.row - other.row,
    );
  };

  /** The series that tells most: of a quantity of several modules if one is, never a loss. */
  taiyi.mostTelling = () => {
    const [run] = taiyi.runs();
    const losses = new Set(taiyi.lossSeries().map(({ series }) => series));
    const some = run.series.filter((one) => isNumeric(run, one) && !losses.has(one));
    const counts = Map.groupBy(some, ({ quantity }) => quantity);
    const ranked = some.toSorted((one, other) => (other.score ?? 0) - (one.score ?? 0));
    return ranked.find(({ quantity }) => counts.get(quantity).length > 1) ?? ranked[0];
  };

  /**
   * The series of tensors in the present mode.
   * @param {object} run
   * @returns {object[]}
   */
  taiyi.tensorSeries = (run) =>
    run.series.filter(
      (series) => run.chunks[series.chunk]?.kind === "tensors" && series.mode === taiyi.state.mode,
    );

  /** The modules selected, as one set. */
  taiyi.selectedModules = () => new Set(taiyi.state.selection.flatMap((entry) => entry.modules));

  /** How grave a state is: the smaller, the graver; what has none is the least. */
  taiyi.gravity = (state) => SEVERITY[state] ?? SEVERITY.ok;

  /** The gravest state of so many alerts and warnings. */
  taiyi.gravest = ({ alerts, warnings }) => (alerts ? "alert" : warnings ? "warn" : "ok");

  /** How grave the gravest of some series is. */
  taiyi.gravityOf = (series) => Math.min(...series.map(({ state }) => taiyi.gravity(state)));

  /** Flagged series first, then unusual ones; otherwise the order given. */
  taiyi.bySeverity = (series) =>
    [...series].sort((one, other) => taiyi.gravity(one.state) - taiyi.gravity(other.state));

  /**
   * So many of a list: first what was found, then the extremes, flagged ones, and some all along.
   * @param {object[]} series
   * @param {number} most
   * @param {object[]} [extremes]
   * @returns {object[]}
   */
  taiyi.sample = (series, most, extremes = []) => {
    if (series.length <= most) return series;
    const found = taiyi.findings();
    const isOf = (one) => (finding) =>
      finding.module === one.module && finding.quantity === one.quantity;
    const named = series.filter((one) => found.some(isOf(one)));
    const flagged = taiyi.bySeverity(series).filter((one) => one.state !== "ok");
    const chosen = new Set([...named, ...extremes, ...flagged].slice(0, most));
    const rest = series.filter((one) => !chosen.has(one) && one.state === "ok");
    for (const one of spread(rest, most - chosen.size)) chosen.add(one);
    return series.filter((one) => chosen.has(one));
  };

  /** So many of a list, evenly along it. */
  function spread(list, most) {
    const count = Math.min(most, list.length);
    const pitch = (list.length - 1) / Math.max(count - 1, 1);
    return Array.from({ length: count }, (_, k) => list[Math.round(k * pitch)]);
  }

  /**
   * The first and last step of all runs.
   * @returns {[number, number]}
   */
  taiyi.allSteps = () => {
    const series = taiyi.runs().flatMap((run) => run.series);
    const first = series.reduce((least, one) => Math.min(least, one.first), Infinity);
    const last = series.reduce((most, one) => Math.max(most, one.last), -Infinity);
    return first <= last ? [first, last] : [0, 0];
  };

  /**
   * All steps with room for the last one, which is as wide on an axis as the others.
   * @returns {[number, number]}
   */
  taiyi.axisSteps = () => {
    taiyi.header.axis ??= axis(); // asked for with each movement of the pointer
    return taiyi.header.axis;
  };

  function axis() {
    const [first, last] = taiyi.allSteps();
    const several = taiyi.runs().flatMap((run) => run.series.filter((one) => one.numbers > 1));
    const pitch = (one) => (one.last - one.first) / (one.numbers - 1);
    const least = several.reduce((sum, one) => Math.min(sum, pitch(one)), Infinity);
    return [first, last + (Number.isFinite(least) ? Math.max(Math.ceil(least), 1) : 1)];
  }

  /** The steps shown. */
  taiyi.shownSteps = () => taiyi.state.range ?? taiyi.axisSteps();

  /**
   * What was found, most urgent first; of several runs one after the other.
   * @returns {object[]} Findings, with the `place` of their run.
   */
  taiyi.findings = () =>
    taiyi.runs().flatMap((run, place) => (run.findings ?? []).map((one) => ({ ...one, place })));

  const REPORT = /^(?:alert|warning|note) (\w+): /;

  /** The kind of finding that an event reported in training; nothing for other events. */
  taiyi.kindReported = ({ kind, text }) => (kind === "finding" ? text.match(REPORT)?.[1] : undefined);

  /** The finding that an event reported, if it is one of those in the end. */
  taiyi.findingOf = (event, place) =>
    taiyi
      .findings()
      .find(
        (one) =>
          one.place === place &&
          one.kind === taiyi.kindReported(event) &&
          one.module === event.module,
      );

  /** Since when a finding is so, and when it was noticed in training if that was later. */
  taiyi.whenOf = ({ kind, module, step, place }) => {
    const isReport = (event) => taiyi.kindReported(event) === kind && event.module === module;
    const seen = taiyi.runs()[place].events.find(isReport);
    const since = `since step ${taiyi.whole(step)}`;
    return seen ? `${since}, seen at ${taiyi.whole(seen.step)}` : since;
  };

  const SEVERITIES = { alert: "alert", warning: "warn" };

  /** How a finding looks: the name of its class, and of its ink. */
  taiyi.lookOfFinding = ({ severity }) => SEVERITIES[severity] ?? "muted";

  /**
   * The numbers that are logged as a loss.
   * @returns {{run: object, series: object, place: number}[]}
   */
  taiyi.lossSeries = () =>
    taiyi.runs().flatMap((run, place) =>
      run.series
        .filter((series) => !series.direction && isNumeric(run, series) && /loss/i.test(series.quantity))
        .map((series) => ({ run, series, place })),
    );

  /** Whether nothing defines the latest number of a series, as a ratio of 0 by 0. */
  taiyi.lacksValue = (series) => series.undefined && Number.isNaN(taiyi.number(series.latest));

  /** The latest number of a series as a text; null where there is none. */
  taiyi.latestText = (series) => {
    const latest = taiyi.number(series?.latest);
    if (latest === null) return null;
    return taiyi.lacksValue(series) ? "–" : taiyi.numeral(latest);
  };

  /** The class of the latest number of a series: its state, which NaN is never well in. */
  taiyi.lookOfLatest = ({ latest, state }) =>
    Number.isNaN(taiyi.number(latest)) && state === "ok" ? "none" : state;

  /** What is said of a number that nothing defines. */
  taiyi.undefinedText = "no value: 0/0";

  /** Whether numbers of a unit lie between fixed ends, as shares do: never on a log scale. */
  taiyi.isShare = (unit) => unit === "share" || unit === "cosine" || unit.startsWith("grey");

  const LOOKS = new Map([
    ["non_finite", "alert"],
    ["overflow", "muted"],
  ]);

  /** How an event of a kind looks: the name of its class, and of its ink. */
  taiyi.lookOf = (kind) => LOOKS.get(kind) ?? "warn";

  /**
   * Where the graph has to be looked at: all that the findings of the first run name, most urgent
   * first, what each is about before what else it names; or where nothing was found, the site of
   * the first NaN or Inf.
   * @param {object} outline
   * @returns {{index: number, look: string, text: string}[]} With the items of the outline.
   */
  taiyi.sites = (outline) => {
    const found = taiyi.findings().filter(({ place, boxes }) => place === 0 && boxes.length > 0);
    const sites = found.map((one) => one.boxes.map((index) => ({ index, ...siteOf(one) })));
    if (sites.length) return sites.flat();
    const event = taiyi.runs()[0].events.find(({ kind }) => kind === "non_finite");
    const index = event && outline.byModule.get(event.module);
    return index === undefined ? [] : [{ index, ...siteOf(event), look: "alert" }];
  };

  function siteOf(found) {
    const word = found.kind === "non_finite" ? "first NaN/Inf" : found.kind.replaceAll("_", " ");
    const text = `${taiyi.shortened(word, 30)}, step ${taiyi.whole(found.step)}`;
    return { look: taiyi.lookOfFinding(found), text };
  }

  /** A state's sign: what tells it without colour. */
  taiyi.stateSign = ({ state, trend }) => {
    if (state === "alert") return " !";
    if (state !== "warn") return "";
    return { up: " ↑", down: " ↓" }[trend] ?? " ~";
  };
})(taiyi);
