"use strict";

/* What was told during the runs, as a list that leads to its sites. */
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
    find("event-table").hidden = all.length === 0;
    find("event-rows").replaceChildren(...all.slice(0, allowed).map(row));
    find("more-events").hidden = all.length <= allowed;
    tellWhatIsLeftOut();
  };

  function tellWhatIsLeftOut() {
    const sum = (name) =>
      taiyi.runs().reduce((total, run) => total + (run.left_out?.[name] ?? 0), 0);
    const parts = [
      sum("events") ? taiyi.counted(sum("events"), "later event") : "",
      sum("tensors") ? `tensors of ${taiyi.counted(sum("tensors"), "series", "series")}` : "",
    ].filter(Boolean);
    find("left-out").textContent = parts.length ? `Not in this page: ${parts.join(", ")}.` : "";
  }

  function row({ event, place }) {
    const { step, kind, module, text } = event;
    const told = KINDS.get(kind) ?? taiyi.shortened(kind, 20);
    const name = taiyi.shortened(module, 48);
    const go = { type: "button", class: "link", onclick: () => taiyi.goTo(module) };
    const site = module ? element("button", { ...go, title: taiyi.visible(module) }, name) : "";
    const whose = place ? ` (${taiyi.shortened(taiyi.runs()[1].name, 24)})` : "";
    return element(
      "tr",
      {},
      element("td", { class: "number" }, taiyi.whole(step)),
      element(
        "td",
        {},
        element("span", { class: `kind ${kind === "non_finite" ? "alert" : "warn"}` }, told),
      ),
      element("td", {}, site, whose),
      element("td", { class: "text", title: taiyi.visible(text) }, taiyi.shortened(text, 300)),
    );
  }
})(taiyi);
