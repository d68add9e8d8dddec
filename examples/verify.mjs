// Verify records of dollyd with npm's `jose` (Node.js 18 or newer): npm install jose@5
//
// Usage: node verify.mjs KEYS FILE...
// KEYS: a JWK set of the keys you trust. FILE: whole chains, one envelope a line, or an evidence file (.tar, .tar.gz).
// One verdict a file, exit 1 where one is wrong; the rules, and the codes of what breaks them: docs/wire-format.md.
// strict.mjs, evidence.mjs and persons.mjs belong to it.
import { readFileSync } from 'node:fs';
import { calculateJwkThumbprint, flattenedVerify, importJWK } from 'jose';
import { Evidence, isEvidence } from './evidence.mjs';
import { Decisions } from './persons.mjs';
import {
  ANY, CHAIN, COUNT, INTEGER, NAME, TEXT, TEXTS, Wrong, bytesOf, demand, sha256, shaped, strictObject,
} from './strict.mjs';

// The points of small order, for which anybody can sign, by their y.
const P = 2n ** 255n - 19n;
const OF_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;
const SMALL = new Set([0n, 1n, P - 1n, OF_ORDER_8, P - OF_ORDER_8]);

async function keyOf(jwk) {
  const good = jwk.kty === 'OKP' && jwk.crv === 'Ed25519' && (jwk.alg ?? 'EdDSA') === 'EdDSA';
  demand(good && bytesOf(jwk.x ?? '').length === 32, 'body', 'not an Ed25519 key');
  const y = BigInt(`0x${bytesOf(jwk.x).reverse().toString('hex')}`) & (2n ** 255n - 1n);
  demand(y < P && !SMALL.has(y), 'body', 'a key of small order, or not in its canonical encoding');
  const kid = await calculateJwkThumbprint(jwk);
  demand((jwk.kid ?? kid) === kid, 'body', 'a key bears the name of another');
  return [kid, await importJWK({ kty: 'OKP', crv: 'Ed25519', x: jwk.x }, 'EdDSA')];
}

// --- what must be in a record ----------------------------------------------------------------------
const NAMED = { id: TEXT, digest: TEXT };
const SETTING = { game: TEXT, variant: TEXT, rulebook: NAMED, profile: NAMED, 'zero_rule?': TEXT };
const CAPTURE = { digest: TEXT, lines: INTEGER };
const DECISION = { evidence: { 'capture?': CAPTURE }, 'mode?': TEXT, 'setting?': SETTING };
const BODIES = {
  session: ANY, round: ANY, 'bets-closed': ANY, correction: ANY, incident: ANY, gap: ANY, clock: ANY,
  'self-check': ANY, result: DECISION, void: DECISION, unresolved: DECISION, 'throw-rejected': DECISION,
  key: { event: TEXT, jwk: TEXTS, reason: TEXT, 'previous_chain?': CHAIN, 'previous_seq?': COUNT },
  checkpoint: { reason: TEXT, seq: COUNT, head: TEXT, finals: COUNT },
};
const TIME = { utc: TEXT, monotonic_ns: INTEGER, boot: TEXT, synchronised: 'boolean', error_bound_us: INTEGER };
const PLACE = { site: NAME, node: NAME, table: NAME, chain: CHAIN, seq: COUNT, prev: TEXT, round: COUNT };
const RECORD = { v: INTEGER, kind: TEXT, ...PLACE, time: TIME, body: ANY };

// --- a chain ---------------------------------------------------------------------------------------
const ENVELOPE = /^\{"payload":"([\w-]+)","protected":"([\w-]+)","signature":"([\w-]+)"\}$/;
const HEADER = /^\{"alg":"EdDSA","kid":"([\w-]{43})","typ":"dolly-record\/1"\}$/;

class Verifier {
  constructor(keys) {
    Object.assign(this, { keys, evidence: null, chains: new Map(), records: 0 });
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
    demand(known, 'record', 'not a record of a known version and kind, with names and numbers');
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
    chain.decisions.take(record);
    Object.assign(chain, { seq: record.seq, digest: sha256(line) });
  }

  begin({ chain, table, site }) { // in an evidence file maybe in its middle
    const start = this.evidence?.startOf(chain) ?? { seq: 0, digest: '0'.repeat(64) };
    const whole = start.seq === 0; // else where play stands, and the count of rounds, are learned on the way
    const decisions = new Decisions(whole);
    const rounds = { decisions, begins: whole, known: whole, last: 0, open: 0, unresolved: false, finals: whole ? 0 : NaN };
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
      if (seq === 1) Object.assign(chain, { previous: body.previous_chain, previousSeq: body.previous_seq });
    } else if (kind === 'checkpoint') {
      if (Number.isNaN(chain.finals)) chain.finals = body.finals;
      const here = body.seq === seq - 1 && body.head === prev && body.finals === chain.finals;
      demand(here, 'body', 'the checkpoint is of another place');
    } else if (BODIES[kind] === DECISION) {
      this.evidence?.takeDecision(name, seq, body);
    }
  }

  checkEnd() {
    demand(this.records > 0, 'envelope', 'there is nothing to verify');
    const [first, followed] = [new Set(), new Set()]; // tables with a first chain; chains that another one follows
    for (const [name, { begins, table, previous, previousSeq }] of this.chains) {
      if (!begins) continue; // only its first record says what came before it
      const [met, key] = previous ? [followed, previous] : [first, table];
      demand(!met.has(key), 'chain', `${name} does not go on after the chain before it`);
      met.add(key);
      const before = this.chains.get(previous);
      const end = before === undefined || (before.table === table && before.seq === previousSeq);
      demand(end, 'chain', `${previous} does not end at record ${previousSeq}, as the next one says`);
      for (let at = previous, steps = 0; at && steps < this.chains.size; steps += 1) {
        demand(at !== name, 'chain', `${name} comes before itself`);
        at = this.chains.get(at)?.previous;
      }
    }
    this.evidence?.check(this.chains);
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
const linesOf = (data) => data.toString('latin1').replace(/\n$/, '').split('\n');

async function verdict(file, keys) {
  const data = readFileSync(file);
  const verifier = new Verifier(keys);
  try {
    if (isEvidence(data)) verifier.evidence = new Evidence(data);
    for (const line of verifier.evidence?.lines() ?? linesOf(data)) await verifier.take(line);
    verifier.checkEnd();
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    return `WRONG: record ${verifier.records}: ${error.message.replace(/[^ -~]/g, '?')}`; // one line, always
  }
  return `good: ${verifier.records} records in ${verifier.chains.size} chains`;
}

const [keysFile, ...files] = process.argv.slice(2);
const refuse = (error) => { console.error(`${keysFile}: ${error.message}`); process.exit(2); };
const keys = new Map(await Promise.all(JSON.parse(readFileSync(keysFile, 'utf8')).keys.map(keyOf)).catch(refuse));
for (const file of files) {
  const said = await verdict(file, keys);
  console.log(`${file}: ${said}`);
  if (!said.startsWith('good')) process.exitCode = 1;
}
