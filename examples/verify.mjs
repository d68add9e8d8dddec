// Verify records of dollyd with npm's `jose` (Node.js 18 or newer): npm install jose@5
//
// Usage: node verify.mjs KEYS FILE...
// KEYS: a JWK set of the keys you trust. FILE: whole chains, one envelope a line, or an evidence file (.tar, .tar.gz).
// One verdict a file, exit 1 where one is wrong; the rules, and the codes of what breaks them: docs/wire-format.md.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { calculateJwkThumbprint, flattenedVerify, importJWK } from 'jose';

class Wrong extends Error {}
const demand = (good, code, why) => { if (!good) throw new Wrong(`${code}: ${why}`); };
const sha256 = (data) => createHash('sha256').update(data).digest('hex');

// --- keys, base64url, strict JSON ------------------------------------------------------------------
async function keyOf(jwk) {
  const good = jwk.kty === 'OKP' && jwk.crv === 'Ed25519' && (jwk.alg ?? 'EdDSA') === 'EdDSA';
  demand(good && bytesOf(jwk.x ?? '').length === 32, 'body', 'not an Ed25519 key');
  const kid = await calculateJwkThumbprint(jwk);
  demand((jwk.kid ?? kid) === kid, 'body', 'a key bears the name of another');
  return [kid, await importJWK({ kty: 'OKP', crv: 'Ed25519', x: jwk.x }, 'EdDSA')];
}

function bytesOf(base64url) {
  const bytes = Buffer.from(base64url, 'base64url');
  demand(bytes.toString('base64url') === base64url, 'base64url', 'not the canonical base64url of its bytes');
  return bytes;
}

// One object of text, integers of 64 bits, booleans, arrays and objects; no key twice, none but ASCII.
function strictObject(bytes) {
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

// --- what must be in a record ----------------------------------------------------------------------
const [TEXT, INTEGER, TEXTS, ANY] = ['string', 'number', 'texts', 'any'];
const NAMED = { id: TEXT, digest: TEXT };
const SETTING = { game: TEXT, variant: TEXT, rulebook: NAMED, profile: NAMED, 'zero_rule?': TEXT };
const CAPTURE = { digest: TEXT, lines: INTEGER };
const DECISION = { evidence: { 'capture?': CAPTURE }, 'mode?': TEXT, 'setting?': SETTING };
const BODIES = {
  session: ANY, round: ANY, 'bets-closed': ANY, correction: ANY, incident: ANY, gap: ANY, clock: ANY,
  'self-check': ANY, result: DECISION, void: DECISION, unresolved: DECISION, 'throw-rejected': DECISION,
  key: { event: TEXT, jwk: TEXTS, reason: TEXT, 'previous_chain?': TEXT, 'previous_seq?': INTEGER },
  checkpoint: { reason: TEXT, seq: INTEGER, head: TEXT, finals: INTEGER },
};
const TIME = { utc: TEXT, monotonic_ns: INTEGER, boot: TEXT, synchronised: 'boolean', error_bound_us: INTEGER };
const PLACE = { site: TEXT, node: TEXT, table: TEXT, chain: TEXT, seq: INTEGER, prev: TEXT, round: INTEGER };
const RECORD = { v: INTEGER, kind: TEXT, ...PLACE, time: TIME, body: ANY };

function shaped(value, type) {
  const given = Array.isArray(value) ? 'array' : typeof value; // there is no null
  if (type === TEXTS) return given === 'object' && Object.values(value).every((member) => typeof member === TEXT);
  if (typeof type === 'string') return type === ANY || type === given;
  return given === 'object' && Object.entries(type).every(([name, inner]) => {
    const member = name.replace('?', '');
    return Object.hasOwn(value, member) ? shaped(value[member], inner) : name.endsWith('?');
  });
}

// --- a chain ---------------------------------------------------------------------------------------
const ENVELOPE = /^\{"payload":"([\w-]+)","protected":"([\w-]+)","signature":"([\w-]+)"\}$/;
const HEADER = /^\{"alg":"EdDSA","kid":"([\w-]{43})","typ":"dolly-record\/1"\}$/;

class Verifier {
  constructor(keys, captures = null) { // an evidence file has captures, and its chains may begin in their middle
    Object.assign(this, { keys, captures, chains: new Map(), records: 0 });
  }

  async take(line) {
    this.records += 1;
    const parts = line.length <= 1 << 20 && ENVELOPE.exec(line);
    demand(parts, 'envelope', 'not in the one form that an envelope has');
    const [payload, header, signature] = parts.slice(1).map(bytesOf);
    demand(signature.length === 64, 'envelope', 'an Ed25519 signature has 64 bytes');
    const record = strictObject(payload);
    const kid = HEADER.exec(header.toString('latin1'))?.[1];
    demand(kid, 'header', 'not exactly alg EdDSA, kid, typ dolly-record/1');
    const known = shaped(record, RECORD) && record.v === 1 && Object.hasOwn(BODIES, record.kind);
    demand(known, 'record', 'not a record of a known version and kind');
    const chain = this.chains.get(record.chain) ?? this.begin(record);
    demand(chain.keys.has(kid), 'key', `${kid} is not trusted`);
    const envelope = { payload: parts[1], protected: parts[2], signature: parts[3] };
    const refuse = (error) => demand(false, 'signature', error.message);
    await flattenedVerify(envelope, chain.keys.get(kid), { algorithms: ['EdDSA'] }).catch(refuse);
    demand((chain.turn ?? kid) === kid, 'key', `it is the turn of ${chain.turn} to sign`);
    demand(record.seq === chain.seq + 1, 'chain', `after record ${chain.seq} comes ${record.seq}`);
    demand(record.prev === chain.digest, 'chain', `prev is not the digest of record ${chain.seq}`);
    const here = record.table === chain.table && record.site === chain.site;
    demand(here, 'chain', `the chain belongs to table ${chain.table} of site ${chain.site}`);
    demand(record.seq > 1 || record.kind === 'key', 'chain', 'the chain does not begin with its key');
    await this.checkBody(record, chain, kid);
    demand(keepsRoundRules(record, chain), 'round', `${record.kind} of round ${record.round} has no place here`);
    Object.assign(chain, { seq: record.seq, digest: sha256(line) });
  }

  begin({ chain, table, site, seq, prev }) {
    const start = this.captures ? { seq: seq - 1, digest: prev } : { seq: 0, digest: '0'.repeat(64) };
    const whole = start.seq === 0; // else where play stands, and the count of rounds, are learned on the way
    const rounds = { known: whole, last: 0, open: 0, unresolved: false, finals: whole ? 0 : NaN };
    return this.chains.set(chain, { ...start, ...rounds, table, site, keys: new Map(this.keys) }).get(chain);
  }

  async checkBody({ kind, chain: name, seq, prev, body }, chain, kid) {
    demand(shaped(body, BODIES[kind]), 'body', `not the body of a ${kind}`);
    chain.turn = kid;
    if (kind === 'key') {
      const [next, key] = await keyOf(body.jwk);
      demand(seq > 1 || next === kid, 'key', 'the chain begins with a key that did not sign');
      chain.keys.set(next, key);
      chain.turn = next;
    } else if (kind === 'checkpoint') {
      if (Number.isNaN(chain.finals)) chain.finals = body.finals;
      const here = body.seq === seq - 1 && body.head === prev && body.finals === chain.finals;
      demand(here, 'body', 'the checkpoint is of another place');
    } else if (BODIES[kind] === DECISION && body.evidence.capture) {
      const capture = this.captures?.get(`${name}/${seq}`);
      demand(!capture || sha256(capture) === body.evidence.capture.digest, 'body', 'not the capture that was signed');
    }
  }
}

function keepsRoundRules({ kind, round, body }, chain) {
  const { known, last, open, unresolved } = chain;
  const [ends, goesOn] = [/^(result|void)$/, /^(bets-closed|throw-rejected|unresolved)$/].map((re) => re.test(kind));
  const here = round === open && round !== 0;
  chain.finals += ends;
  if (kind === 'round') {
    Object.assign(chain, { known: true, last: Math.max(last, round), open: round, unresolved: false });
    return round > last && open === 0;
  }
  if (!known) Object.assign(chain, { known: ends || goesOn, last: Math.max(last, round), open: goesOn ? round : 0 });
  if (goesOn) chain.unresolved ||= kind === 'unresolved';
  if (ends) Object.assign(chain, { open: 0, unresolved: false });
  if (!known) return true;
  if (ends) return here && !(unresolved && kind === 'result' && body.mode === 'auto');
  if (goesOn) return here && !unresolved;
  return kind === 'correction' ? 0 < round && round <= last && !here : 0 <= round && round <= last;
}

// --- files -----------------------------------------------------------------------------------------
function* membersOf(tar) {
  const text = (from, length) => tar.toString('latin1', from, from + length).replace(/\0.*$/s, '');
  for (let at = 0; at + 512 <= tar.length && tar[at] !== 0; ) {
    const [name, size, prefix] = [text(at, 100), parseInt(text(at + 124, 12), 8), text(at + 345, 155)];
    yield [prefix ? `${prefix}/${name}` : name, tar.subarray(at + 512, at + 512 + size)];
    at += 512 + 512 * Math.ceil(size / 512);
  }
}

async function verdict(file, keys) {
  const data = file.endsWith('.gz') ? gunzipSync(readFileSync(file)) : readFileSync(file);
  const isEvidence = /\.tar(\.gz)?$/.test(file);
  const members = isEvidence ? [...membersOf(data)] : [['records/', data]];
  const inside = (folder) => members.filter(([name]) => name.startsWith(folder));
  const captures = inside('captures/').map(([name, data]) => [name.slice(9).replace(/\.jsonl$/, ''), data]);
  const verifier = new Verifier(keys, isEvidence ? new Map(captures) : null);
  const lines = inside('records/').flatMap(([, data]) => data.toString('latin1').replace(/\n$/, '').split('\n'));
  try {
    for (const line of lines) await verifier.take(line);
    demand(verifier.records > 0, 'envelope', 'there is nothing to verify');
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    return `WRONG: record ${verifier.records}: ${error.message.replace(/[^ -~]/g, '?')}`; // one line, always
  }
  return `good: ${verifier.records} records in ${verifier.chains.size} chains`;
}

const [keysFile, ...files] = process.argv.slice(2);
const keys = new Map(await Promise.all(JSON.parse(readFileSync(keysFile, 'utf8')).keys.map(keyOf)));
for (const file of files) {
  const said = await verdict(file, keys);
  console.log(`${file}: ${said}`);
  if (!said.startsWith('good')) process.exitCode = 1;
}
