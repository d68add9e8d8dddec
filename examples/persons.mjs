// Results by hand and corrections: the two persons, and what the chain says of the round. A part of verify.mjs.
// docs/wire-format.md, "Decisions of persons": all but 3, and of 9 what needs no profile.
import { contradiction, memoryAfter } from './derived.mjs';
import { CHAIN, COUNT, INTEGER, NAME, TEXT, bytesOf, demand, sha256, shaped, strictObject } from './strict.mjs';

const READING = {
  roulette: ['pocket'], boule: ['number', 'cup'], 'money-wheel': ['sector'], craps: ['die_1', 'die_2'],
  tuplanoppa: ['die_1', 'die_2'], 'sic-bo': ['die_1', 'die_2', 'die_3'],
};
const ENVELOPE = /^\{"payload":"([\w-]+)","protected":"([\w-]+)","signature":"([\w-]{86})"\}$/;
const HEADER = /^\{"alg":"EdDSA","kid":"([\w-]{43})","typ":"dolly-command\/1"\}$/;
const UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/;
const ORDER = /^(enter|correct|approve)$/;
const [ROLE, SUPERVISOR] = [/^(dealer|inspector|pit-boss)$/, /^(inspector|pit-boss)$/];
const PLACE = { v: INTEGER, site: NAME, table: NAME, chain: CHAIN, round: COUNT };
const COMMAND = { ...PLACE, order: ORDER, role: ROLE, nonce: CHAIN, issued: UTC, expires: UTC };
const APPROVAL = { operator: TEXT, role: TEXT, command: TEXT };
const LOOKED_BACK = 256; // rounds among which the result before a corrected one is looked for
const POLICY = /^(player_choice|returned|carried|unstated)$/;

const fits = (good, why) => demand(good, 'persons', why);
const micros = (utc) => Date.parse(`${utc.slice(0, 19)}Z`) * 1000 + Number(utc.slice(20, 26));

// One text for equal values, in whatever order their members come.
const text = (value) => JSON.stringify(value, (_, one) => (
  one?.constructor === Object ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one));

function commandOf(approval) {
  fits(shaped(approval, APPROVAL), 'an approval has another form');
  const parts = ENVELOPE.exec(approval.command)?.slice(1).map(bytesOf);
  const kid = HEADER.exec(parts?.[1].toString('latin1'))?.[1];
  fits(kid, 'an approval holds no command');
  const said = { value: [], reason: '', proposal: '', ...strictObject(parts[0]), kid, digest: sha256(approval.command) };
  fits(shaped(said, COMMAND) && said.v === 1, 'a command has another form');
  fits(said.role === approval.role, `${approval.operator} signed as ${said.role}`);
  return { ...said, operator: approval.operator, at: micros(said.issued), until: micros(said.expires) };
}

function valueOf(game, outcome) {
  if (outcome === undefined) return []; // void
  const members = READING[game] ?? [];
  fits(members.length > 0 && members.every((name) => Object.hasOwn(outcome, name)), `the outcome is none of ${game}`);
  return members.map((name) => String(outcome[name]));
}

// The proposal that two persons have decided, by its digest. `memory`: of the game before the round, null: not known.
function decided({ kind, time, body, ...place }, memory) {
  const { approvals } = body;
  fits(Array.isArray(approvals) && approvals.length === 2, 'two persons stand behind it, and not fewer or more');
  const [first, second] = approvals.map(commandOf);
  fits(first.order === (kind === 'correction' ? 'correct' : 'enter'), `the first command says ${first.order}`);
  fits(second.order === 'approve' && second.proposal === first.digest, 'the second does not approve the first');
  for (const name of ['site', 'table', 'chain', 'round']) {
    fits(first[name] === place[name] && second[name] === place[name], `a command is of another ${name}`);
  }
  fits(first.kid !== second.kid && first.operator !== second.operator, 'the same person twice');
  fits(SUPERVISOR.test(first.role) || SUPERVISOR.test(second.role), 'none of the two is an inspector or a pit boss');
  fits(second.at - first.at >= -5e6 && second.at - first.at <= 3600e6, 'the approval came too late, or before');
  fits(micros(time.utc) >= second.at - 5e6 && micros(time.utc) < second.until, 'the approval was not good then');
  const { setting, outcome } = kind === 'correction' ? { setting: body.setting, ...body.after } : body;
  const came = valueOf(setting?.game, outcome);
  const value = text(came);
  fits(text(first.value) === value && text(second.value) === value, 'the outcome is not the one that was signed');
  fits(body.reason === first.reason, 'the reason is not the one that was signed');
  fits(kind !== 'correction' || body.id === first.digest, 'its id is not the digest of the proposal');
  const wrong = outcome && contradiction(setting.game, came, outcome, memory, text);
  fits(!wrong, `its outcome contradicts itself: ${wrong}`);
  return first.digest;
}

const finding = ({ kind, outcome = {}, rule = '', stake_policy: policy = '' }) => (
  text(kind === 'result' ? [kind, outcome] : [kind, rule, policy]));
const played = ({ setting = {}, gaming_date: date = '', odds = {} }) => text([setting, date, odds]);

const left = (kind, { setting, outcome }) => ({
  kind, memory: kind === 'result' && outcome ? memoryAfter(setting?.game, outcome) : {},
});

// What one chain has said of its rounds; `whole`: from its first record.
export class Decisions {
  constructor(whole) {
    Object.assign(this, { whole, stakes: undefined, rounds: new Map(), decided: new Set(), policies: new Map() });
  }

  take(record) {
    const { kind, round, seq, body } = record;
    const ends = kind === 'result' || kind === 'void';
    if (kind === 'correction' || (kind === 'result' && body.mode !== 'auto')) {
      fits(kind === 'correction' || body.mode === 'manual', `mode ${body.mode} is not known`);
      const proposal = decided(record, kind === 'correction' ? this.memoryBefore(round) : null);
      fits(!this.decided.has(proposal), 'the two persons decided another record, and not this one too');
      this.decided.add(proposal);
    }
    if (kind === 'session') this.stakes = body.stakes && text(body.stakes);
    if (kind === 'void') this.policy(body, body.stake_policy);
    if (kind === 'correction') this.correct(record);
    if (ends) {
      const stakes = body.stakes ? text(body.stakes) : this.stakes;
      this.rounds.set(round, { seq, finding: finding({ ...body, kind }), played: played(body), stakes, ...left(kind, body) });
    }
  }

  correct({ seq, round, body }) {
    const { before, after, element, corrects, stakes } = body;
    const kinds = [before?.kind, after?.kind];
    fits(kinds.every((kind) => /^(result|void)$/.test(kind)) && kinds.includes('result'), 'neither a result nor a void');
    fits(element === (before.kind === after.kind ? 'outcome' : 'verdict'), `its element is ${element}`);
    if (after.kind === 'void') {
      fits(after.outcome === undefined && after.rule, 'a void has a rule and no outcome');
      this.policy(body, after.stake_policy);
    } else fits(!after.rule && !after.stake_policy, 'a result has neither rule nor stake policy');
    const was = this.rounds.get(round); // not known where the chain was entered behind it
    if (was) {
      fits(corrects === was.seq, `the round ended with record ${was.seq}`);
      fits(finding(before) === was.finding, `what it takes away is not what record ${was.seq} says`);
      fits(played(body) === was.played, 'its setting, gaming date or odds are not those of the round');
      fits(was.stakes === undefined || (stakes && text(stakes)) === was.stakes, 'its stakes are not those of the round');
    }
    const limits = was ? was.stakes : stakes && text(stakes);
    const now = left(after.kind, { ...body, ...after });
    this.rounds.set(round, { seq, finding: finding(after), played: played(body), stakes: limits, ...now });
  }

  // What the game remembered when a round began, by the last result before it; null where that is not known.
  memoryBefore(round) {
    const [oldest = round] = this.rounds.keys();
    for (let before = round - 1; before >= Math.max(round - LOOKED_BACK, oldest, 1); before -= 1) {
      const ended = this.rounds.get(before);
      if (!ended) return null;
      if (ended.kind === 'result') return ended.memory;
    }
    return this.whole && oldest === 1 ? {} : null;
  }

  policy({ setting }, policy) {
    const of = `${setting?.profile?.digest} ${setting?.game}`;
    fits(POLICY.test(policy) && (this.policies.get(of) ?? policy) === policy, `stake policy ${policy}`);
    this.policies.set(of, policy);
  }
}
