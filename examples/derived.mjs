// What follows from what two persons have read: the other members of an outcome. A part of verify.mjs.
// docs/wire-format.md, "Decisions of persons", 6.

const RED = new Set([1, 3, 5, 7, 9, 12, 14, 16, 18, 19, 21, 23, 25, 27, 30, 32, 34, 36]);
const [BOULE_RED, NO_CHANCES] = [new Set([2, 4, 7, 9]), 5];
const POINTS = new Set([4, 5, 6, 8, 9, 10]);
const FACES = ['1', '2', '3', '4', '5', '6'];
const REMEMBERED = ['point', 'shooter', 'seats'];
const INTEGER = /^[+-]?\d+$/;

class CannotCome extends Error {}

function number(text) {
  if (!INTEGER.test(text)) throw new CannotCome();
  return Number(text);
}

const range = (n, width) => {
  const first = Math.floor((n - 1) / width) * width + 1;
  return `${first}-${first + width - 1}`;
};

function roulette([pocket], outcome, memory) {
  const zero = pocket === '0' || pocket === '00';
  if (!zero && !/^([1-9]|[12]\d|3[0-6])$/.test(pocket)) throw new CannotCome();
  const n = Number(pocket);
  const fields = zero
    ? { colour: 'green', parity: 'none', half: 'none', dozen: 'none', column: 'none', street: 'none' }
    : {
      colour: RED.has(n) ? 'red' : 'black', parity: n % 2 ? 'odd' : 'even', half: range(n, 18), dozen: range(n, 12),
      column: String(((n - 1) % 3) + 1), street: range(n, 3),
    };
  if (Object.hasOwn(outcome, 'quarter')) fields.quarter = zero ? 'none' : range(n, 9);
  if (Object.hasOwn(outcome, 'zeros_in_a_row')) fields.zeros_in_a_row = zero ? number(memory.zeros ?? '0') + 1 : 0;
  return { pocket, ...fields };
}

function boule([text, cup]) {
  const n = number(text);
  const chances = n === NO_CHANCES
    ? { colour: 'none', parity: 'none', half: 'none' }
    : {
      colour: BOULE_RED.has(n) ? 'red' : 'black', parity: n % 2 ? 'odd' : 'even', half: n < NO_CHANCES ? '1-4' : '6-9',
    };
  return { number: text, cup: number(cup), ...chances };
}

function dice(value) {
  if (!value.every((face) => FACES.includes(face))) throw new CannotCome();
  return value.map(Number);
}

function two(value) {
  const [first, second] = dice(value);
  return { die_1: first, die_2: second, sum: first + second, pair: first === second };
}

function craps(value, _, { point }) {
  return { ...two(value), phase: point ? 'point' : 'come-out', ...(point && { point: number(point) }) };
}

function tuplanoppa(value, _, { seats, shooter = '' }) {
  const thrown = two(value);
  const seated = seats ? { seats: seats.split(/\s+/).filter(Boolean), shooter } : {};
  return { ...thrown, under_over: thrown.sum === 7 ? 'seven' : thrown.sum < 7 ? 'under' : 'over', ...seated };
}

function sicBo(value) {
  const faces = dice(value);
  const sorted = [...value].sort();
  const total = faces.reduce((sum, face) => sum + face, 0);
  const count = (face) => value.filter((one) => one === face).length;
  const triple = sorted[0] === sorted[2];
  const different = [...new Set(sorted)];
  return {
    die_1: faces[0], die_2: faces[1], die_3: faces[2], total, triple,
    size: triple ? 'none' : total <= 10 ? 'small' : 'big',
    doubles: FACES.filter((face) => count(face) >= 2),
    two_dice: different.flatMap((low, at) => different.slice(at + 1).map((high) => `${low}-${high}`)),
    ...Object.fromEntries(FACES.map((face) => [`count_${face}`, count(face)])),
  };
}

const DERIVED = {
  roulette, boule, craps, tuplanoppa, 'sic-bo': sicBo, 'money-wheel': ([sector]) => ({ sector: number(sector) }),
};

// The memory with which an outcome says that its round began.
function claimed(game, { point, seats, shooter = '', zeros_in_a_row: zeros }) {
  if (game === 'craps' && point !== undefined) return { point: String(point) };
  if (game === 'tuplanoppa' && Array.isArray(seats) && seats.length > 0) {
    return { seats: seats.join(' '), shooter: String(shooter) };
  }
  if (game === 'roulette' && zeros !== undefined) return { zeros: String(Math.max(0, number(String(zeros)) - 1)) };
  return {};
}

// What the game remembers after an outcome.
export function memoryAfter(game, { sum, point, seats, shooter, zeros_in_a_row: zeros }) {
  if (game === 'roulette' && zeros !== undefined) return { zeros: String(zeros) };
  if (game === 'craps' && sum !== undefined) {
    if (point === undefined) return POINTS.has(sum) ? { point: String(sum) } : {};
    return sum === point || sum === 7 ? {} : { point: String(point) };
  }
  if (game === 'tuplanoppa' && Array.isArray(seats) && typeof shooter === 'string' && sum !== undefined) {
    const next = seats[(seats.indexOf(shooter) + 1) % seats.length] ?? '';
    return { seats: seats.join(' '), shooter: sum === 7 ? next : shooter };
  }
  return {};
}

// What an outcome says that does not follow from its reading, empty where all fits. `memory`: what the game remembered
// when the round began; null where that is not known.
export function contradiction(game, value, outcome, memory, text) {
  try {
    const derived = DERIVED[game](value, outcome, memory ?? claimed(game, outcome));
    for (const [name, right] of Object.entries(derived)) {
      if (Object.hasOwn(outcome, name) && text(outcome[name]) !== text(right)) return `its ${name} does not follow`;
    }
    const strange = REMEMBERED.find((name) => Object.hasOwn(outcome, name) && !Object.hasOwn(derived, name));
    return memory && strange ? `its ${strange} does not follow from the rounds before` : '';
  } catch (error) {
    if (error instanceof CannotCome) return `${value.join(' ')} cannot come in ${game}`;
    throw error;
  }
}
