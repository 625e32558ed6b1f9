"use strict";

/* Colour maps as tables, and the theme's colours for what is drawn on canvas. */
((taiyi) => {
  // 33 stops each, of matplotlib's maps: between two neighbours colour is linear to the eye.
  const STOPS = {
    viridis:
      "440154470d6048186a482374472d7b4537814240863e49893b528b375b8d33638d2f6b8e2c728e297a8e26828e" +
      "23898e21918c1f988b1fa08822a78528ae8032b67a3fbc734ec36b5ec96270cf5784d44b98d83eaddc30c2df23" +
      "d8e219ece51bfde725",
    diverging:
      "0530610e41791752901f63a82a71b23480b93f8ec0529dc86bacd184bcd99bc9e0aed3e6c2ddecd4e6f1e0ecf3" +
      "ecf2f5f7f6f6f9eee7fbe5d8fddcc9fbccb4f8bb9ef5aa89ee9677e48066db6b55d05548c53e3dba2832ab162a" +
      "930e267c072267001f",
  };

  const pixel = (red, green, blue) => (255 << 24) | (blue << 16) | (green << 8) | red;

  function table(stops) {
    const at = (index) => [0, 2, 4].map((k) => parseInt(stops.substr(index * 6 + k, 2), 16));
    const last = stops.length / 6 - 1;
    return Uint32Array.from({ length: 256 }, (_, level) => {
      const place = (level / 255) * last;
      const below = Math.min(Math.floor(place), last - 1);
      const [low, high] = [at(below), at(below + 1)];
      const mixed = low.map((part, k) => Math.round(part + (place - below) * (high[k] - part)));
      return pixel(...mixed);
    });
  }

  /** Colour maps: 256 pixels each, as an ImageData's buffer has them. */
  taiyi.maps = { viridis: table(STOPS.viridis), diverging: table(STOPS.diverging) };

  /** A pixel of what is exactly zero, where a log scale has no place for it: lilac. */
  taiyi.zeroShade = pixel(217, 205, 242);

  /** A pixel of what nothing defines: grey, which is in no colour map. */
  taiyi.undefinedShade = pixel(160, 166, 173);

  /** Two pixels each, drawn as stripes: unlike every colour map, also without colour. */
  taiyi.stripes = {
    nan: [pixel(214, 0, 50), pixel(255, 255, 255)],
    inf: [pixel(240, 110, 0), pixel(30, 10, 0)],
  };

  /**
   * A colour of the theme, by the name of its CSS variable without the dashes.
   * @param {string} name
   * @returns {string}
   */
  taiyi.ink = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  /**
   * The colours of curves.
   * @returns {string[]}
   */
  taiyi.lineInks = () => Array.from({ length: 8 }, (_, index) => taiyi.ink(`line-${index}`));
})(taiyi);
