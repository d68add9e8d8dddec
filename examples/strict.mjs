// What verify.mjs and evidence.mjs share: strict JSON, base64url, digests, the shape of what was read.
import { createHash } from 'node:crypto';

export class Wrong extends Error {}
export const demand = (good, code, why) => { if (!good) throw new Wrong(`${code}: ${why}`); };
export const sha256 = (data) => createHash('sha256').update(data).digest('hex');

export function bytesOf(base64url) {
  const bytes = Buffer.from(base64url, 'base64url');
  demand(bytes.toString('base64url') === base64url, 'base64url', 'not the canonical base64url of its bytes');
  return bytes;
}

// One object of text, integers of 64 bits, booleans, arrays and objects; no key twice, none but ASCII.
export function strictObject(bytes) {
  let text, value;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) { demand(false, 'payload', error.message); }
  demand(text.startsWith('{') && text.endsWith('}'), 'payload', 'it is not one object and nothing else');
  const open = [];
  const tokens = /("(?:\\.|[^"\\])*")([ \t\n\r]*:)?|[{}[\]]|[^\s{}[\],:"]+/g;
  for (const [token, string, colon] of text.matchAll(tokens)) {
    if (string) {
      const plain = JSON.parse(string);
      demand(!/\p{Surrogate}/u.test(plain), 'payload', 'half a character');
      if (!colon) continue;
      demand(/^[\x00-\x7f]*$/.test(plain), 'payload', 'a key is not ASCII');
      demand(!open.at(-1).has(plain), 'payload', `key ${string} is there twice`);
      open.at(-1).add(plain);
    } else if (token === '{' || token === '[') {
      demand(open.push(new Set()) <= 11, 'payload', 'it is nested too deep');
    } else if (token === '}' || token === ']') {
      open.pop();
    } else if (token !== 'true' && token !== 'false') {
      demand(/^-?\d{1,19}$/.test(token) && BigInt.asIntN(64, token) === BigInt(token), 'payload', `${token} as a value`);
    }
  }
  return value;
}

export const [TEXT, INTEGER, COUNT, TEXTS, ANY] = ['string', 'number', 'count', 'texts', 'any'];
export const [NAME, CHAIN] = [/^[a-z0-9-]{1,40}$/, /^[0-9a-f]{32}$/];

// Whether a value is what `type` says: one of the above, or an object with these members; "?" marks what may be missing.
export function shaped(value, type) {
  const given = Array.isArray(value) ? 'array' : typeof value; // there is no null
  if (type === TEXTS) return given === 'object' && Object.values(value).every((member) => typeof member === TEXT);
  if (type instanceof RegExp) return given === TEXT && type.test(value);
  if (type === COUNT) return Number.isSafeInteger(value) && value >= 0; // from 0 to 2^53 - 1
  if (typeof type === 'string') return type === ANY || type === given;
  return given === 'object' && Object.entries(type).every(([name, inner]) => {
    const member = name.replace('?', '');
    return Object.hasOwn(value, member) ? shaped(value[member], inner) : name.endsWith('?');
  });
}
