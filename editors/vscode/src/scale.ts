// The scale on which scores are shown; the same as that of the command line and of the server's hints.

export const STEPS = 8;

/** On shades of light themes text is drawn with this part of its brightness, so that it keeps its hue and is readable. */
export const LIGHT_TEXT = 0.8;

const BARS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/** The step of a score in 0..1; only a score of 0 has none. */
export function step(score: number): number {
  return Number.isNaN(score) ? 0 : Math.min(Math.max(Math.ceil(score * STEPS), 0), STEPS);
}

/** The bar of a score, so that relevance can be read without colour. */
export function bar(score: number): string {
  return BARS[step(score) - 1] ?? ' ';
}

/** Such as `▇ 0.83`; a minus behind it says that the line spoke against the verdict. */
export function label(line: { score: number; raw: number; groundTruth?: boolean }): string {
  const truth = line.groundTruth === true ? ' ●' : '';
  return `${bar(line.score)} ${line.score.toFixed(2)}${line.raw < 0 ? '−' : ''}${truth}`;
}

/** A probability with as many digits as it takes to see on which side of the threshold it is. */
export function probability(value: number, threshold: number): string {
  for (let digits = 2; digits <= 6; digits++) {
    const text = value.toFixed(digits);
    if (Number(text) > threshold === value > threshold) {
      return text;
    }
  }
  return String(value);
}

/** A number and its noun: `1 line`, `3 lines`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** With the same minus everywhere. */
export function signed(text: string): string {
  return text.replace('-', '−');
}

/** Such as `0.12`, or `0.00 (would be 0.21)` where the function is not flagged. */
export function agreement(known: { da: number | null; wouldBe?: number | null }): string {
  if (known.da === null) {
    return '–';
  }
  return `${known.da.toFixed(2)}${typeof known.wouldBe === 'number' ? ` (would be ${known.wouldBe.toFixed(2)})` : ''}`;
}

/** Such as `DA 0.12 (null 0.09)`, or `DA 0.00 (would be 0.21)` as the code lens says it. */
export function alignment(
  known: { da: number | null; reason?: string; wouldBe?: number | null; nullPermutation?: number | null } | undefined,
): string {
  if (known === undefined) {
    return '';
  }
  if (known.da === null) {
    return 'DA undefined';
  }
  if (typeof known.wouldBe === 'number') {
    return `DA ${agreement(known)}`;
  }
  const chance = typeof known.nullPermutation === 'number' ? ` (null ${known.nullPermutation.toFixed(2)})` : '';
  return `DA ${known.da.toFixed(2)}${chance}`;
}
