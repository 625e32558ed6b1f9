"use strict";

/* Elements, made without any markup: a text given is never read as HTML. */
((taiyi) => {
  const SVG = "http://www.w3.org/2000/svg";

  /**
   * An HTML element.
   * @param {string} tag
   * @param {object} properties Those that start with "on" are listeners, the others attributes;
   *   what is false or null is left out.
   * @param {...(Node | string)} children
   * @returns {HTMLElement}
   */
  taiyi.element = (tag, properties = {}, ...children) =>
    furnished(document.createElement(tag), properties, children);

  /**
   * An SVG element; see `taiyi.element`.
   * @returns {SVGElement}
   */
  taiyi.svg = (tag, properties = {}, ...children) =>
    furnished(document.createElementNS(SVG, tag), properties, children);

  function furnished(made, properties, children) {
    for (const [name, value] of Object.entries(properties)) furnish(made, name, value);
    made.append(...children);
    return made;
  }

  function furnish(made, name, value) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, String(value));
  }

  /**
   * The page's element of an id.
   * @param {string} id
   * @returns {HTMLElement}
   */
  taiyi.find = (id) => document.getElementById(id);

  /** A select's options, of pairs of a value and its text. */
  taiyi.fillSelect = (select, pairs, chosen) => {
    const options = pairs.map(([value, text]) =>
      taiyi.element("option", { value, selected: value === chosen }, text),
    );
    select.replaceChildren(...options);
  };

  /**
   * A row of buttons of which one is pressed.
   * @param {HTMLElement} home
   * @param {[string, string, string?][]} pairs Values, their texts, and what these mean.
   * @param {string} chosen
   * @param {(value: string) => void} choose
   */
  taiyi.fillChoice = (home, pairs, chosen, choose) => {
    const buttons = pairs.map(([value, text, meaning]) =>
      taiyi.element(
        "button",
        {
          type: "button",
          "aria-pressed": String(value === chosen),
          title: taiyi.visible(meaning ?? text),
          onclick: () => choose(value),
        },
        taiyi.shortened(text, 40),
      ),
    );
    const focused = Array.from(home.children).indexOf(document.activeElement);
    home.replaceChildren(...buttons);
    if (focused >= 0) buttons[focused]?.focus();
  };

  /** Tells a screen reader, and no one else. */
  taiyi.announce = (text) => {
    taiyi.find("announcement").textContent = text;
  };
})(taiyi);
