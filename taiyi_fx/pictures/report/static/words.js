"use strict";

/* Numbers and names as texts. */
((taiyi) => {
  const MOST_DIGITS = 12;
  const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

  /**
   * A number as a short text: three significant digits.
   * @param {number} value
   * @returns {string}
   */
  taiyi.numeral = (value) => {
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "Inf" : "−Inf";
    const size = Math.abs(value);
    if (isFar(size)) return tidy(value.toExponential(1));
    return tidy(size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3))));
  };

  const isFar = (size) => size !== 0 && (size < 1e-3 || size >= 1e5);

  /**
   * Numbers of one scale as texts that differ where the numbers do: "56.10", "56.12".
   * @param {number[]} values
   * @returns {string[]}
   */
  taiyi.numerals = (values) => {
    const wanted = new Set(values).size;
    const differ = (texts) => new Set(texts).size === wanted;
    let texts = values.map(taiyi.numeral);
    for (let digits = 4; digits <= MOST_DIGITS && !differ(texts); digits += 1)
      texts = likePrecise(values, digits);
    return texts;
  };

  /** Texts with as many decimals as the largest number has for so many digits. */
  function likePrecise(values, digits) {
    const largest = Math.max(...values.map(Math.abs));
    if (isFar(largest)) return values.map((value) => tidy(value.toExponential(digits - 1)));
    const decimals = Math.max(digits - 1 - Math.floor(Math.log10(largest)), 0);
    return values.map((value) => tidy(value.toFixed(decimals)));
  }

  const tidy = (text) => text.replace("e+", "e").replaceAll("-", "−");

  /**
   * A whole number with its thousands apart.
   * @param {number} count
   * @returns {string}
   */
  taiyi.whole = (count) => count.toLocaleString("en");

  /**
   * A number of things: "1 box", "12 boxes".
   * @param {number} count
   * @param {string} one
   * @param {string} many
   * @returns {string}
   */
  taiyi.counted = (count, one, many = `${one}s`) =>
    `${taiyi.whole(count)} ${count === 1 ? one : many}`;

  /**
   * A text with its control characters spelt out, so that none hides or turns what is around it.
   * @param {string} text
   * @returns {string}
   */
  taiyi.visible = (text) =>
    text.replace(INVISIBLE, (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`);

  /**
   * A text of at most so many characters: a longer one loses its middle.
   * @param {string} text
   * @param {number} most
   * @returns {string}
   */
  taiyi.shortened = (text, most) => {
    const signs = Array.from(taiyi.visible(text));
    if (signs.length <= most) return signs.join("");
    const head = Math.ceil((most - 1) / 2);
    const tail = most - 1 - head;
    return `${signs.slice(0, head).join("")}…${signs.slice(signs.length - tail).join("")}`;
  };
})(taiyi);
