// An evidence file of dollyd, held against its manifest: docs/evidence.md. A part of verify.mjs.
import { isDeepStrictEqual } from 'node:util';
import { gunzipSync, inflateRawSync } from 'node:zlib';
import { ANY, CHAIN, COUNT, INTEGER, NAME, TEXT, demand, sha256, shaped, strictObject } from './strict.mjs';

const PLACES = { first_seq: COUNT, last_seq: COUNT, captures_from: COUNT };
const PART = { table: NAME, chain: CHAIN, ...PLACES, prev: TEXT, head: TEXT };
const MEMBER = { name: TEXT, size: COUNT, sha256: TEXT };
const MISSING = { folder: TEXT, digest: TEXT };
const NAMES = [
  /^((manifest|trust|keys)\.json|config\.toml|records\/[a-z0-9-]{1,40}\.jsonl)$/,
  /^captures\/[0-9a-f]{32}\/[1-9][0-9]{0,15}\.jsonl$/,
  /^(rulebooks|profiles|layouts)\/[0-9a-f]{64}\.toml$/,
];
const MANIFEST = { v: INTEGER, site: NAME, from: TEXT, to: TEXT, chains: ANY, members: ANY, missing: ANY };

const only = (value, type) => shaped(value, type) && Object.keys(value).length === Object.keys(type).length;
const listOf = (values, type) => Array.isArray(values) && values.every((value) => only(value, type));

// --- the tar ---------------------------------------------------------------------------------------
const octal = (number, digits) => `${number.toString(8).padStart(digits, '0')}\0`;

function headerOf(name, size) { // the one form of it
  const before = name.padEnd(100, '\0') + octal(0o644, 7) + octal(0, 7) + octal(0, 7) + octal(size, 11) + octal(0, 11);
  const after = '0'.padEnd(101, '\0') + 'ustar\0' + '00';
  const sum = Buffer.from(`${before}        ${after}`, 'latin1').reduce((total, byte) => total + byte);
  return Buffer.from(`${before}${octal(sum, 6)} ${after}`.padEnd(512, '\0'), 'latin1');
}

function* membersOf(tar) {
  let at = 0;
  while (tar[at]) {
    const name = tar.toString('latin1', at, at + 100).replace(/\0*$/, '');
    const size = parseInt(tar.toString('latin1', at + 124, at + 135), 8);
    demand(headerOf(name, size).equals(tar.subarray(at, at + 512)), 'file', `byte ${at}: not the header of a member`);
    yield [name, tar.subarray(at + 512, at + 512 + size)];
    at += 512 + 512 * Math.ceil(size / 512);
  }
  demand(tar.subarray(at).equals(Buffer.alloc(1024)), 'file', 'it is cut off, or something is behind its end');
}

const GZIP = Buffer.from('1f8b080000000000', 'hex'); // deflate, no name, no time
const isPacked = (data) => data.subarray(0, 2).equals(GZIP.subarray(0, 2));

// What a file is, its bytes say, and not its name.
export const isEvidence = (data) => isPacked(data) || data.toString('latin1', 257, 263) === 'ustar\0';

// One gzip member and nothing behind it, which grows to 100 times its size, 64 MiB where it is small, 4 GiB at most.
function unpacked(data) {
  if (!isPacked(data)) return data;
  demand(data.subarray(0, 8).equals(GZIP), 'file', 'its gzip header is not in its one form');
  const maxOutputLength = Math.min(2 ** 32 - 1, Math.max(2 ** 26, 100 * data.length));
  try {
    const { engine } = inflateRawSync(data.subarray(10), { maxOutputLength, info: true });
    demand(10 + engine.bytesWritten + 8 === data.length, 'file', 'gzip: it is cut off, or something is behind its end');
    return gunzipSync(data, { maxOutputLength });
  } catch (error) { return demand(false, 'file', error.message); }
}

// --- what is in it ---------------------------------------------------------------------------------
export class Evidence {
  constructor(data) {
    Object.assign(this, { members: new Map(), captures: [], taken: 0, rules: new Set() });
    let afterCapture = false;
    for (const [name, content] of membersOf(unpacked(data))) {
      demand(NAMES.some((form) => form.test(name)), 'file', `${name} is no name of a member`);
      const isCapture = name.startsWith('captures/');
      const together = !isCapture || afterCapture || this.captures.length === 0;
      demand(together && !this.members.has(name), 'file', `${name} is there twice, or not in its place`);
      if (isCapture) this.captures.push([name, content]);
      else this.members.set(name, content);
      afterCapture = isCapture;
    }
    demand(this.members.has('manifest.json'), 'file', 'it has no manifest');
    this.manifest = strictObject(this.members.get('manifest.json'));
    const { v, chains, members, missing } = this.manifest;
    const known = only(this.manifest, MANIFEST) && v === 1;
    const listed = listOf(chains, PART) && listOf(members, MEMBER) && listOf(missing, MISSING);
    demand(known && listed, 'file', 'the manifest is not one of a known version');
    this.parts = new Map(chains.map((part) => [part.chain, part]));
  }

  lines() {
    return [...this.members].filter(([name]) => name.startsWith('records/')).flatMap(([name, content]) => {
      const lines = content.toString('latin1').split('\n');
      demand(lines.pop() === '', 'file', `${name} is cut off`);
      return lines;
    });
  }

  // The number and the digest of the record before the first one of a chain.
  startOf(chain) {
    const part = this.parts.get(chain);
    demand(part, 'file', `chain ${chain} is not in the manifest`);
    return part.first_seq > 1 ? { seq: part.first_seq - 1, digest: part.prev } : null;
  }

  // What is behind a decision: the next capture, and the texts of the rules, of which more is said in the end.
  takeDecision(chain, seq, { evidence, setting }) {
    const [name, content] = this.captures[this.taken] ?? [];
    if (evidence.capture?.digest && name === `captures/${chain}/${seq}.jsonl`) {
      demand(sha256(content) === evidence.capture.digest, 'body', 'not the capture that was signed');
      this.taken += 1;
    } else if (evidence.capture?.digest) {
      demand(seq < this.parts.get(chain).captures_from, 'file', `the capture of record ${seq} is missing`);
    }
    if (setting?.rulebook.digest) {
      this.rules.add(`rulebooks/${setting.rulebook.digest}.toml`).add(`profiles/${setting.profile.digest}.toml`);
    }
  }

  // Hold the manifest against the chains that were read and the members that are here.
  check(chains) {
    for (const { table, chain, last_seq, head } of this.manifest.chains) {
      const { table: where, site, seq, digest } = chains.get(chain) ?? {};
      demand(site === this.manifest.site, 'file', `chain ${chain} is not of site ${this.manifest.site}`);
      const same = where === table && seq === last_seq && digest === head;
      demand(same, 'file', `chain ${chain} does not end at record ${last_seq}, as the manifest says`);
    }
    const names = ['manifest.json', ...this.manifest.members.map(({ name }) => name)];
    demand(isDeepStrictEqual([...this.members.keys()], names), 'file', 'the manifest has other members, or another order');
    for (const { name, size, sha256: digest } of this.manifest.members) {
      const [folder, text] = name.split('/');
      const isText = ['rulebooks', 'profiles', 'layouts'].includes(folder);
      const [here, long] = [sha256(this.members.get(name)), this.members.get(name).length];
      demand(here === digest && long === size, 'file', `${name} is not what the manifest says`);
      demand(!isText || text === `${digest}.toml`, 'file', `${name} is not the text that it is named after`);
    }
    demand(this.taken === this.captures.length, 'file', 'a capture belongs to no record, or is not in its place');
    const missing = new Set(this.manifest.missing.map(({ folder, digest }) => `${folder}/${digest}.toml`));
    for (const name of this.rules) demand(this.members.has(name) || missing.has(name), 'file', `${name} is missing`);
  }
}
