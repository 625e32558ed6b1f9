"use strict";

/* The events of the runs, as a list that leads to their sites. */
((taiyi) => {
  const MOST = 200;
  const KINDS = new Map([["non_finite", "NaN/Inf"]]);
  const { find, element } = taiyi;
  let allowed = MOST;

  /** Sets the list up: it follows updates from here on. */
  taiyi.startEvents = () => {
    find("more-events").addEventListener("click", () => {
      allowed = Infinity;
      taiyi.drawEventList();
    });
    taiyi.on(["updates"], taiyi.drawEventList);
    taiyi.drawEventList();
  };

  /** Fills the list. */
  taiyi.drawEventList = () => {
    const all = taiyi.runs().flatMap((run, place) => run.events.map((event) => ({ event, place })));
    find("event-count").textContent = taiyi.whole(all.length);
    find("no-events").hidden = all.length > 0;
    find("no-events").textContent = nothingText();
    find("event-table").hidden = all.length === 0;
    const groups = grouped(all);
    find("event-rows").replaceChildren(...groups.slice(0, allowed).map(row));
    find("more-events").hidden = groups.length <= allowed;
    tellWhatIsLeftOut();
  };

  /** What is said where there are no events: more only where nothing is flagged either. */
  function nothingText() {
    if (taiyi.findings().length) return "No events: the findings above say what is wrong.";
    if (taiyi.urgent().length) return "No events, but some series are flagged.";
    return "No events: no NaN, no Inf, no warning.";
  }

  /** What is alike but for the step, as lists, in the order of their first steps. */
  function grouped(all) {
    const groups = Map.groupBy(all, ({ event, place }) => {
      const { step, kind, module, text } = event;
      return JSON.stringify([place, kind, module, withoutStep(text, step)]);
    });
    return [...groups.values()];
  }

  /** A text with its own step's number, where it is a word of its own, as a blank. */
  const withoutStep = (text, step) =>
    text.replace(/\d+(,\d{3})*/g, (digits) =>
      Number(digits.replaceAll(",", "")) === step ? "\u0000" : digits,
    );

  function stepsOf(group) {
    const steps = group.map(({ event }) => event.step);
    const [first, last] = [Math.min(...steps), Math.max(...steps)].map(taiyi.whole);
    if (group.length === 1) return first;
    const times = `(${taiyi.counted(group.length, "time")})`;
    return first === last ? `${first} ${times}` : `steps ${first} to ${last} ${times}`;
  }

  function tellWhatIsLeftOut() {
    const sum = (name) =>
      taiyi.runs().reduce((total, run) => total + (run.left_out?.[name] ?? 0), 0);
    const parts = [
      sum("events") ? taiyi.counted(sum("events"), "later event") : "",
      sum("tensors") ? `tensors of ${taiyi.counted(sum("tensors"), "series", "series")}` : "",
    ].filter(Boolean);
    find("left-out").textContent = parts.length ? `Not in this page: ${parts.join(", ")}.` : "";
  }

  function row(group) {
    const [{ event, place }] = group;
    const { kind, module, text } = event;
    const label = KINDS.get(kind) ?? taiyi.shortened(kind, 20);
    const name = taiyi.shortened(module, 48);
    const go = { type: "button", class: "link", title: taiyi.visible(module) };
    const site = module ? element("button", go, name) : "";
    const report = taiyi.kindReported(event);
    const what = report ? reported(group, report) : taiyi.shortened(text, 300);
    const lead = module ? { class: "leads", onclick: () => taiyi.goTo(module) } : {};
    const whose = place ? ` (${taiyi.runName(place)})` : "";
    return element(
      "tr",
      lead,
      element("td", { class: "number" }, `${report ? "seen at " : ""}${stepsOf(group)}`),
      element(
        "td",
        {},
        element("span", { class: `kind ${taiyi.lookOf(kind)}` }, label),
      ),
      element("td", {}, site, whose),
      element("td", { class: "text", title: taiyi.visible(text) }, what),
    );
  }

  /** What a finding reported in training is in the end: a link to it, or that it is none any more. */
  function reported([{ event, place }], kind) {
    const name = kind.replaceAll("_", " ");
    const found = taiyi.findingOf(event, place);
    if (!found) return `${name}: not among the findings in the end`;
    const go = (click) => {
      click.stopPropagation(); // the row leads to the module
      taiyi.showEntry(found);
    };
    const title = "Go to this finding at the top";
    const link = element("button", { type: "button", class: "link", title, onclick: go }, name);
    const since = element("span", { class: "muted" }, ` since step ${taiyi.whole(found.step)}`);
    return element("span", {}, link, since);
  }
})(taiyi);
