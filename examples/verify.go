// Verify records of dollyd with Go's standard library (Go 1.19 or newer).
//
// Usage: go run verify.go evidence.go persons.go KEYS FILE...
// KEYS is a JWK set of the keys you trust. A FILE is JSON Lines with whole chains, one envelope a line, or an
// evidence file (.tar, .tar.gz). One verdict a file; exit 1 where one of them is wrong. The rules, and the
// codes of what breaks them, are those of docs/wire-format.md.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// wrong is what a file is refused for: a code and a reason. It travels as a panic up to verdict.
type wrong string

func demand(good bool, code, format string, about ...any) {
	if !good {
		panic(wrong(code + ": " + fmt.Sprintf(format, about...)))
	}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// --- keys, base64url, strict JSON ----------------------------------------------------------------

type object = map[string]any

func bytesOf(text string) []byte {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	demand(err == nil, "base64url", "not the canonical base64url of its bytes")
	return data
}

// noKey: points of small order, for which anybody can sign, and other encodings than the canonical one.
var noKey = regexp.MustCompile(`\A(0[01](00){30}[08]0|(e[d-f]|f.)(ff){30}[7f]f|ec(ff){30}[7f]f` +
	`|26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc[08]5` +
	`|c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03[7f]a)\z`)

func keyOf(jwk object) (string, ed25519.PublicKey) {
	alg, named := jwk["alg"]
	demand(jwk["kty"] == "OKP" && jwk["crv"] == "Ed25519" && (!named || alg == "EdDSA"), "body", "a key is not for Ed25519")
	x, _ := jwk["x"].(string)
	key := bytesOf(x)
	demand(len(key) == ed25519.PublicKeySize, "body", "a key has not 32 bytes")
	demand(!noKey.MatchString(hex.EncodeToString(key)), "body", "a key of small order, or not in its canonical encoding")
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`))
	kid := base64.RawURLEncoding.EncodeToString(sum[:])
	if name, named := jwk["kid"]; named {
		demand(name == kid, "body", "a key bears the name of another")
	}
	return kid, key
}

var half = regexp.MustCompile(`(?i)\\u(d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|d[89a-f][0-9a-f]{2})`)

// strictObject reads one object of text, integers of 64 bits, booleans, arrays and objects; no key twice.
func strictObject(data []byte) object {
	demand(utf8.Valid(data) && json.Valid(data), "payload", "it is no JSON")
	demand(data[0] == '{' && data[len(data)-1] == '}', "payload", "it is not one object and nothing else")
	for _, escape := range half.FindAllString(strings.ReplaceAll(string(data), `\\`, "__"), -1) {
		demand(len(escape) == 12, "payload", "half a character")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return strictValue(decoder, 0).(object)
}

func strictValue(decoder *json.Decoder, depth int) any {
	token, err := decoder.Token()
	demand(err == nil, "payload", "it is no JSON")
	switch value := token.(type) {
	case json.Number:
		whole, err := value.Int64()
		demand(err == nil, "payload", "%s is no integer of 64 bits", value)
		return whole
	case json.Delim:
		demand(depth < 11, "payload", "it is nested too deep")
		members, items := object{}, []any{}
		for decoder.More() {
			if value == '[' {
				items = append(items, strictValue(decoder, depth+1))
				continue
			}
			token, _ := decoder.Token()
			key := token.(string)
			_, twice := members[key]
			demand(!twice, "payload", "key %q is there twice", key)
			demand(strings.IndexFunc(key, func(r rune) bool { return r > 127 }) < 0, "payload", "a key is not ASCII")
			members[key] = strictValue(decoder, depth+1)
		}
		decoder.Token() // the closing bracket
		if value == '[' {
			return items
		}
		return members
	}
	demand(token != nil, "payload", "there is a null")
	return token
}

// --- what must be in a record --------------------------------------------------------------------

// shape says what an object has: members and the Go types they are read as, "count" for 0 to 2^53-1, or the form of a text;
// "?" marks one that may be missing.
type shape map[string]any

func fits(value, wanted any) bool {
	if form, ok := wanted.(*regexp.Regexp); ok {
		text, ok := value.(string)
		return ok && form.MatchString(text)
	}
	if number, ok := value.(int64); ok && wanted == "count" {
		return number >= 0 && number < 1<<53
	}
	members, inner := wanted.(shape)
	if !inner {
		return wanted == "any" || wanted == fmt.Sprintf("%T", value)
	}
	given, good := value.(object)
	for name, kind := range members {
		member, there := given[strings.TrimSuffix(name, "?")]
		good = good && (there && fits(member, kind) || !there && strings.HasSuffix(name, "?"))
	}
	return good
}

var (
	name     = regexp.MustCompile(`\A[a-z0-9-]{1,40}\z`)
	chainID  = regexp.MustCompile(`\A[0-9a-f]{32}\z`)
	named    = shape{"id": "string", "digest": "string"}
	setting  = shape{"game": "string", "variant": "string", "rulebook": named, "profile": named, "zero_rule?": "string"}
	evidence = shape{"capture?": shape{"digest": "string", "lines": "int64"}}
	decision = shape{"evidence": evidence, "mode?": "string", "setting?": setting}
	bodies   = map[string]any{
		"session": "any", "round": "any", "bets-closed": "any", "correction": "any", "incident": "any", "gap": "any",
		"clock": "any", "self-check": "any",
		"result": decision, "void": decision, "unresolved": decision, "throw-rejected": decision,
		"checkpoint": shape{"reason": "string", "seq": "count", "head": "string", "finals": "count"},
		"key": shape{"event": "string", "jwk": fmt.Sprintf("%T", object{}), "reason": "string",
			"previous_chain?": chainID, "previous_seq?": "count"},
	}
	moment = shape{"utc": "string", "monotonic_ns": "int64", "boot": "string", "synchronised": "bool", "error_bound_us": "int64"}
	header = shape{"v": "int64", "kind": "string", "site": name, "node": name, "table": name, "chain": chainID,
		"seq": "count", "prev": "string", "round": "count", "time": moment, "body": "any"}
)

// --- a chain -------------------------------------------------------------------------------------

var (
	envelopeForm = regexp.MustCompile(`\A\{"payload":"([\w-]+)","protected":"([\w-]+)","signature":"([\w-]+)"\}\z`)
	headerForm   = regexp.MustCompile(`\A\{"alg":"EdDSA","kid":"([\w-]{43})","typ":"dolly-record/1"\}\z`)
)

const unknown = -1 // ended rounds of a chain that is given from its middle, before the first checkpoint

type chain struct {
	keys                    map[string]ed25519.PublicKey
	kid, table, site, head  string
	seq, last, open, finals int64
	previous                string // the chain before it, which ends at record previousSeq or behind it
	previousSeq             int64
	begins                  bool // whether its first record is here, which alone says what came before
	decisions               *decisions
	known, unresolved       bool // whether it is known where play stands; whether only people may close the round
}

type verifier struct {
	keys     map[string]ed25519.PublicKey
	evidence *evidenceFile // nil: whole chains
	chains   map[string]*chain
	records  int
}

func (v *verifier) take(line []byte) {
	v.records++
	demand(len(line) <= 1<<20, "envelope", "longer than any envelope")
	parts := envelopeForm.FindStringSubmatch(string(line))
	demand(parts != nil, "envelope", "not in the one form that an envelope has")
	payload, protected, signature := bytesOf(parts[1]), bytesOf(parts[2]), bytesOf(parts[3])
	demand(len(signature) == ed25519.SignatureSize, "envelope", "an Ed25519 signature has 64 bytes")
	record := strictObject(payload)
	says := headerForm.FindSubmatch(protected)
	demand(says != nil, "header", "not exactly alg EdDSA, kid, typ dolly-record/1")
	kid := string(says[1])
	demand(fits(record, header) && record["v"] == int64(1), "record", "not a record of a known version")
	demand(bodies[record["kind"].(string)] != nil, "record", "kind %s is not known", record["kind"])

	seq, prev := record["seq"].(int64), record["prev"].(string)
	c := v.chains[record["chain"].(string)]
	if c == nil {
		c = v.begin(record)
	}
	demand(c.keys[kid] != nil, "key", "%s is not trusted", kid)
	demand(ed25519.Verify(c.keys[kid], []byte(parts[2]+"."+parts[1]), signature), "signature", "it is not that of key %s", kid)
	demand(c.kid == "" || c.kid == kid, "key", "it is the turn of %s to sign", c.kid)
	demand(seq == c.seq+1, "chain", "after record %d comes %d", c.seq, seq)
	demand(prev == c.head, "chain", "prev is not the digest of record %d", c.seq)
	demand(record["table"] == c.table && record["site"] == c.site, "chain", "the chain belongs to table %s of site %s", c.table, c.site)
	v.checkBody(record, c, kid)
	demand(c.keepsRoundRules(record), "round", "%s of round %d has no place here", record["kind"], record["round"])
	c.decisions.take(record)
	c.seq, c.head = seq, digest(line)
}

func (v *verifier) begin(record object) *chain {
	c := &chain{keys: map[string]ed25519.PublicKey{}, table: record["table"].(string), site: record["site"].(string)}
	for kid, key := range v.keys {
		c.keys[kid] = key
	}
	c.head = strings.Repeat("0", 64)
	if v.evidence != nil {
		part := v.evidence.part(record["chain"].(string))
		if first := part["first_seq"].(int64); first > 1 {
			c.seq, c.head = first-1, part["prev"].(string)
		}
	}
	c.begins = c.seq == 0
	c.decisions = newDecisions(c.begins)
	if c.known = c.begins; !c.known {
		c.finals = unknown
	}
	v.chains[record["chain"].(string)] = c
	return c
}

func (v *verifier) checkBody(record object, c *chain, kid string) {
	kind, seq := record["kind"].(string), record["seq"].(int64)
	demand(seq > 1 || kind == "key", "chain", "the chain does not begin with its key")
	c.kid = kid
	demand(fits(record["body"], bodies[kind]), "body", "not the body of a %s", kind)
	body, _ := record["body"].(object)
	switch kind {
	case "key":
		for _, member := range body["jwk"].(object) {
			demand(fits(member, "string"), "body", "a member of a key is no text")
		}
		next, key := keyOf(body["jwk"].(object))
		demand(seq > 1 || next == kid, "key", "the chain begins with a key that did not sign")
		c.kid, c.keys[next] = next, key
		if seq == 1 {
			c.previous, _ = body["previous_chain"].(string)
			c.previousSeq, _ = body["previous_seq"].(int64)
		}
	case "checkpoint":
		if c.finals == unknown {
			c.finals = body["finals"].(int64)
		}
		here := body["seq"] == seq-1 && body["head"] == record["prev"] && body["finals"] == c.finals
		demand(here, "body", "the checkpoint is of another place")
	case "result", "void", "unresolved", "throw-rejected":
		if v.evidence != nil {
			v.evidence.takeDecision(record["chain"].(string), seq, body)
		}
	}
}

func (v *verifier) checkEnd() {
	demand(v.records > 0, "envelope", "there is nothing to verify")
	met := map[[2]string]bool{} // tables whose first chain was met, and chains that another one follows
	for name, c := range v.chains {
		if !c.begins {
			continue
		}
		key := [2]string{"after", c.previous}
		if c.previous == "" {
			key = [2]string{"first", c.table}
		}
		demand(!met[key], "chain", "%s does not go on after the chain before it", name)
		met[key] = true
		before := v.chains[c.previous]
		ends := before == nil || before.table == c.table && before.seq == c.previousSeq
		demand(ends, "chain", "%s does not end at record %d, as the next one says", c.previous, c.previousSeq)
		for steps := 0; before != nil && steps < len(v.chains); steps++ {
			demand(before != c, "chain", "%s comes before itself", name)
			before = v.chains[before.previous]
		}
	}
	if v.evidence != nil {
		v.evidence.check(v.chains)
	}
}

func (c *chain) keepsRoundRules(record object) bool {
	kind, round, was := record["kind"].(string), record["round"].(int64), *c
	ends := kind == "result" || kind == "void"
	goesOn := kind == "bets-closed" || kind == "throw-rejected" || kind == "unresolved"
	here := round == was.open && round != 0
	if ends && c.finals != unknown {
		c.finals++
	}
	if (kind == "round" || !was.known) && round > c.last {
		c.last = round
	}
	switch {
	case kind == "round":
		c.open, c.unresolved, c.known = round, false, true
		return round > was.last && was.open == 0
	case ends:
		c.open, c.unresolved, c.known = 0, false, true
		automatic := kind == "result" && record["body"].(object)["mode"] == "auto"
		return !was.known || (here && !(was.unresolved && automatic))
	case goesOn:
		c.unresolved = c.unresolved || kind == "unresolved"
		if !was.known {
			c.open, c.known = round, true
		}
		return !was.known || (here && !was.unresolved)
	case kind == "correction":
		return !was.known || (0 < round && round <= c.last && !here)
	}
	return !was.known || (0 <= round && round <= c.last)
}

// --- files ---------------------------------------------------------------------------------------

func linesOf(data []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

var oneLine = regexp.MustCompile(`[^ -~]`) // what is not, could look like another verdict

func verdict(name string, keys map[string]ed25519.PublicKey) (said string) {
	v := &verifier{keys: keys, chains: map[string]*chain{}}
	defer func() {
		switch why := recover().(type) {
		case nil:
		case wrong:
			said = fmt.Sprintf("WRONG: record %d: %s", v.records, oneLine.ReplaceAllString(string(why), "?"))
		default:
			panic(why)
		}
	}()
	data, err := os.ReadFile(name)
	demand(err == nil, "file", "%v", err)
	var lines [][]byte
	if isEvidence(data) {
		v.evidence = openEvidence(unpacked(data))
		lines = v.evidence.lines()
	} else {
		lines = linesOf(data)
	}
	for _, line := range lines {
		v.take(line)
	}
	v.checkEnd()
	return fmt.Sprintf("good: %d records in %d chains", v.records, len(v.chains))
}

func main() {
	var given struct{ Keys []object }
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(data, &given)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	keys := map[string]ed25519.PublicKey{}
	defer func() {
		if why, bad := recover().(wrong); bad {
			fmt.Fprintf(os.Stderr, "%s: %s\n", os.Args[1], string(why))
			os.Exit(2)
		}
	}()
	for _, jwk := range given.Keys {
		kid, key := keyOf(jwk)
		keys[kid] = key
	}
	code := 0
	for _, name := range os.Args[2:] {
		said := verdict(name, keys)
		if !strings.HasPrefix(said, "good") {
			code = 1
		}
		fmt.Printf("%s: %s\n", name, said)
	}
	os.Exit(code)
}
