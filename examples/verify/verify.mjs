// Check signatures and chain of records with Node's own crypto (Node 16 or newer); no package is needed.
//
// Usage: node verify.mjs KEYS RECORDS
// KEYS is what `dollyd keys show` prints, RECORDS has one envelope a line, in the order of publication.

import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';

const [keysFile, recordsFile] = process.argv.slice(2);
const parse = (base64url) => JSON.parse(Buffer.from(base64url, 'base64url').toString('utf8'));
const wrong = (why) => {
  console.error(`WRONG: ${why}`);
  process.exit(1);
};
const fail = (number, why) => wrong(`record ${number}: ${why}`);

const keys = new Map();
for (const jwk of JSON.parse(readFileSync(keysFile, 'utf8')).keys) {
  const thumbprint = createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${jwk.x}"}`);
  keys.set(thumbprint.digest('base64url'), createPublicKey({ key: jwk, format: 'jwk' }));
}

const heads = new Map();
const lines = readFileSync(recordsFile, 'utf8').split('\n').filter((line) => line !== '');
if (lines.length === 0) wrong('no records');
lines.forEach((line, index) => {
  const number = index + 1;
  let envelope, header, record;
  try {
    envelope = JSON.parse(line);
    header = parse(envelope.protected);
    record = parse(envelope.payload);
  } catch (error) {
    fail(number, error.message);
  }
  if (header.alg !== 'EdDSA' || header.typ !== 'dolly-record/1') fail(number, 'not a record of a known version');
  if (!keys.has(header.kid)) fail(number, `unknown key ${header.kid}`);
  const signed = Buffer.from(`${envelope.protected}.${envelope.payload}`);
  const signature = Buffer.from(envelope.signature, 'base64url');
  if (!verify(null, signed, keys.get(header.kid), signature)) fail(number, 'the signature is wrong');

  const head = heads.get(record.chain) ?? { seq: record.seq - 1, digest: record.prev };
  if (record.seq !== head.seq + 1 || record.prev !== head.digest) {
    fail(number, `does not follow record ${head.seq} of its chain`);
  }
  heads.set(record.chain, { seq: record.seq, digest: createHash('sha256').update(line).digest('hex') });
  if (record.kind === 'result') console.log(record.table, record.round, JSON.stringify(record.body.outcome));
});
console.log(`good: ${lines.length} records in ${heads.size} chains`);
