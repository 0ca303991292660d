// Colours as numbers: contrast, lightness, what colour-blind readers see. For tests and for tools/shades.mjs.

const toLinear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const fromLinear = (value) => (value <= 0.0031308 ? value * 12.92 : 1.055 * value ** (1 / 2.4) - 0.055);

/** `#rrggbb` as linear RGB. */
export function linear(hex) {
  return [1, 3, 5].map((at) => toLinear(parseInt(hex.slice(at, at + 2), 16) / 255));
}

/** What the CSS filter `brightness` makes of a colour. */
export function darker(hex, factor) {
  const bytes = [1, 3, 5].map((at) => Math.round(parseInt(hex.slice(at, at + 2), 16) * factor));
  return `#${bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Relative luminance (WCAG 2.2). */
export function luminance(hex) {
  const [r, g, b] = linear(hex);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Contrast ratio (WCAG 2.2), 1 to 21. */
export function contrast(one, other) {
  const [a, b] = [luminance(one), luminance(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

/** OKLab (Ottosson 2020). */
export function oklab(hex) {
  const [r, g, b] = linear(hex);
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** `#rrggbb` of a colour in OKLab; what no screen shows is clipped. */
export function fromOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const rgb = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const hex = rgb.map((value) => {
    const byte = Math.round(fromLinear(Math.min(Math.max(value, 0), 1)) * 255);
    return byte.toString(16).padStart(2, '0');
  });
  return `#${hex.join('')}`;
}

/** How colour-blind readers see linear RGB (Viénot, Brettel and Mollon 1999). */
export const SEEN = {
  everyone: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  deuteranopia: [
    [0.29275, 0.70725, 0],
    [0.29275, 0.70725, 0],
    [-0.02234, 0.02234, 1],
  ],
  protanopia: [
    [0.11238, 0.88762, 0],
    [0.11238, 0.88762, 0],
    [0.00401, -0.00401, 1],
  ],
};

/** CIE L*a*b* (D65), as somebody sees the colour. */
export function lab(hex, matrix = SEEN.everyone) {
  const rgb = linear(hex);
  const [r, g, b] = matrix.map((row) => row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]);
  const f = (t) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
  const x = f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
  const y = f(0.2126729 * r + 0.7151522 * g + 0.072175 * b);
  const z = f((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** The difference of two colours (CIE 1976), as somebody sees it; about 1 is just noticed side by side. */
export function distance(one, other, matrix = SEEN.everyone) {
  const [a, b] = [lab(one, matrix), lab(other, matrix)];
  return Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}
