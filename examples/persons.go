// Results by hand and corrections: the two persons, and what the chain says of the round. A part of verify.go.
// docs/wire-format.md, "Decisions of persons": all but 3, and of 9 what needs no profile.
package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var (
	readings = map[string][]string{"roulette": {"pocket"}, "boule": {"number", "cup"}, "money-wheel": {"sector"},
		"craps": {"die_1", "die_2"}, "tuplanoppa": {"die_1", "die_2"}, "sic-bo": {"die_1", "die_2", "die_3"}}
	commandHeader = regexp.MustCompile(`\A\{"alg":"EdDSA","kid":"([\w-]{43})","typ":"dolly-command/1"\}\z`)
	utcForm       = regexp.MustCompile(`\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\z`)
	orderForm     = regexp.MustCompile(`\A(enter|correct|approve)\z`)
	roleForm      = regexp.MustCompile(`\A(dealer|inspector|pit-boss)\z`)
	supervisor    = regexp.MustCompile(`\A(inspector|pit-boss)\z`)
	policyForm    = regexp.MustCompile(`\A(player_choice|returned|carried|unstated)\z`)
	commandForm   = shape{"v": "int64", "site": name, "table": name, "chain": chainID, "round": "count", "order": orderForm,
		"role": roleForm, "nonce": chainID, "issued": utcForm, "expires": utcForm, "value?": listForm}
	approvalForm = shape{"operator": "string", "role": "string", "command": "string"}
)

const lookedBack = 256 // rounds among which the result before a corrected one is looked for

func suits(good bool, format string, about ...any) { demand(good, "persons", format, about...) }

// micros since 1970; what is finer is cut off.
func micros(utc string) int64 {
	moment, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", utc)
	suits(err == nil && utcForm.MatchString(utc), "%s is no time", utc)
	return moment.UnixMicro()
}

// same is one text for equal values, in whatever order their members come; Go's encoder sorts them.
func same(values ...any) string {
	text, _ := json.Marshal(values)
	return string(text)
}

func textOf(members any, name string) string {
	given, _ := members.(object)
	text, _ := given[name].(string)
	return text
}

type command struct {
	said             object
	kid, who, digest string
	at, until        int64
}

func commandOf(approval any) command {
	suits(fits(approval, approvalForm), "an approval has another form")
	given := approval.(object)
	text := given["command"].(string)
	parts := envelopeForm.FindStringSubmatch(text)
	suits(parts != nil && len(bytesOf(parts[3])) == 64, "an approval holds no command")
	says := commandHeader.FindSubmatch(bytesOf(parts[2]))
	suits(says != nil, "an approval holds no command")
	said := strictObject(bytesOf(parts[1]))
	suits(fits(said, commandForm) && said["v"] == int64(1), "a command has another form")
	suits(said["role"] == given["role"], "%s signed as %s", given["operator"], said["role"])
	return command{said, string(says[1]), given["operator"].(string), digest([]byte(text)),
		micros(said["issued"].(string)), micros(said["expires"].(string))}
}

func (c command) value() []any {
	value, _ := c.said["value"].([]any)
	return append([]any{}, value...)
}

func valueOf(game string, outcome any, there bool) []any {
	value := []any{}
	if !there { // void
		return value
	}
	given, _ := outcome.(object)
	suits(readings[game] != nil && given != nil, "the outcome is none of %s", game)
	for _, member := range readings[game] {
		one, there := given[member]
		suits(there, "the outcome is none of %s", game)
		switch read := one.(type) {
		case int64:
			one = strconv.FormatInt(read, 10)
		case bool:
			one = strconv.FormatBool(read)
		}
		value = append(value, one)
	}
	return value
}

// decided gives the proposal that two persons have decided, by its digest. before: the game's memory, nil: not known.
func decided(record, body object, before memory) string {
	approvals, _ := body["approvals"].([]any)
	suits(len(approvals) == 2, "two persons stand behind it, and not fewer or more")
	first, second := commandOf(approvals[0]), commandOf(approvals[1])
	corrects := record["kind"] == "correction"
	suits(first.said["order"] == map[bool]string{true: "correct", false: "enter"}[corrects], "the first is of another order")
	suits(second.said["order"] == "approve" && second.said["proposal"] == first.digest, "the second does not approve the first")
	for _, member := range []string{"site", "table", "chain", "round"} {
		here := first.said[member] == record[member] && second.said[member] == record[member]
		suits(here, "a command is of another %s", member)
	}
	suits(first.kid != second.kid && first.who != second.who, "the same person twice")
	supervised := supervisor.MatchString(first.said["role"].(string)) || supervisor.MatchString(second.said["role"].(string))
	suits(supervised, "none of the two is an inspector or a pit boss")
	waited, at := second.at-first.at, micros(textOf(record["time"], "utc"))
	suits(-5e6 <= waited && waited <= 3600e6, "the approval came too late, or before")
	suits(second.at-5e6 <= at && at < second.until, "the approval was not good then")
	finding := body
	if corrects {
		finding, _ = body["after"].(object)
	}
	outcome, there := finding["outcome"]
	game := textOf(body["setting"], "game")
	came := valueOf(game, outcome, there)
	value := same(came)
	suits(same(first.value()) == value && same(second.value()) == value, "the outcome is not the one that was signed")
	reason, given := body["reason"].(string)
	suits(given && reason == textOf(first.said, "reason"), "the reason is not the one that was signed")
	suits(!corrects || body["id"] == first.digest, "its id is not the digest of the proposal")
	if there {
		wrong := contradiction(game, came, outcome.(object), before)
		suits(wrong == "", "its outcome contradicts itself: %s", wrong)
	}
	return first.digest
}

func orElse(value, other any) any {
	if value == nil {
		return other
	}
	return value
}

func findingOf(kind string, body object) string {
	if kind == "result" {
		return same(kind, orElse(body["outcome"], object{}))
	}
	return same(kind, textOf(body, "rule"), textOf(body, "stake_policy"))
}

func playedBy(body object) string {
	return same(orElse(body["setting"], object{}), textOf(body, "gaming_date"), orElse(body["odds"], object{}))
}

func stakesOf(body object) string {
	if body["stakes"] == nil {
		return ""
	}
	return same(body["stakes"])
}

type ended struct {
	seq                     int64
	finding, played, stakes string
	result                  bool
	memory                  memory
}

// decisions: what one chain has said of its rounds.
type decisions struct {
	whole    bool   // from the chain's first record
	oldest   int64  // the first round that was met, 0 for none
	stakes   string // of the session, empty where not known
	rounds   map[int64]ended
	decided  map[string]bool
	policies map[string]string
}

func newDecisions(whole bool) *decisions {
	return &decisions{whole: whole, rounds: map[int64]ended{}, decided: map[string]bool{}, policies: map[string]string{}}
}

func (d *decisions) take(record object) {
	kind, round, seq := record["kind"].(string), record["round"].(int64), record["seq"].(int64)
	body, _ := record["body"].(object)
	if kind == "correction" || kind == "result" && body["mode"] != "auto" {
		suits(kind == "correction" || body["mode"] == "manual", "mode %s is not known", body["mode"])
		var before memory
		if kind == "correction" {
			before = d.memoryBefore(round)
		}
		proposal := decided(record, body, before)
		suits(!d.decided[proposal], "the two persons decided another record, and not this one too")
		d.decided[proposal] = true
	}
	switch kind {
	case "session":
		d.stakes = stakesOf(body)
	case "void":
		d.policy(body, textOf(body, "stake_policy"))
	case "correction":
		d.correct(round, seq, body)
	}
	if kind == "result" || kind == "void" {
		stakes := stakesOf(body)
		if stakes == "" {
			stakes = d.stakes
		}
		d.end(round, ended{seq: seq, finding: findingOf(kind, body), played: playedBy(body), stakes: stakes}, kind, body, body)
	}
}

// end notes how a round ended, and what the game remembers then.
func (d *decisions) end(round int64, one ended, kind string, body, finding object) {
	if d.oldest == 0 {
		d.oldest = round
	}
	outcome, _ := finding["outcome"].(object)
	one.result, one.memory = kind == "result", memory{}
	if one.result {
		one.memory = memoryAfter(textOf(body["setting"], "game"), outcome)
	}
	d.rounds[round] = one
}

// memoryBefore is what the game remembered when a round began, by the last result before it; nil where not known.
func (d *decisions) memoryBefore(round int64) memory {
	oldest := d.oldest
	if oldest == 0 {
		oldest = round
	}
	for before := round - 1; before >= round-lookedBack && before >= oldest && before >= 1; before-- {
		one, there := d.rounds[before]
		if !there {
			return nil
		}
		if one.result {
			return one.memory
		}
	}
	if d.whole && oldest == 1 {
		return memory{}
	}
	return nil
}

func (d *decisions) correct(round, seq int64, body object) {
	before, _ := body["before"].(object)
	after, _ := body["after"].(object)
	was, is := textOf(before, "kind"), textOf(after, "kind")
	known := (was == "result" || was == "void") && (is == "result" || is == "void")
	suits(known && (was == "result" || is == "result"), "neither a result nor a void")
	suits(body["element"] == map[bool]string{true: "outcome", false: "verdict"}[was == is], "its element is another")
	_, outcome := after["outcome"]
	rule, policy := textOf(after, "rule"), textOf(after, "stake_policy")
	if is == "void" {
		suits(!outcome && rule != "", "a void has a rule and no outcome")
		d.policy(body, policy)
	} else {
		suits(rule == "" && policy == "", "a result has neither rule nor stake policy")
	}
	stakes := stakesOf(body)
	if one, there := d.rounds[round]; there { // else the chain was entered behind it
		suits(body["corrects"] == one.seq, "the round ended with record %d", one.seq)
		suits(findingOf(was, before) == one.finding, "what it takes away is not what record %d says", one.seq)
		suits(playedBy(body) == one.played, "its setting, gaming date or odds are not those of the round")
		suits(one.stakes == "" || stakes == one.stakes, "its stakes are not those of the round")
		stakes = one.stakes
	}
	d.end(round, ended{seq: seq, finding: findingOf(is, after), played: playedBy(body), stakes: stakes}, is, body, after)
}

func (d *decisions) policy(body object, policy string) {
	setting, _ := body["setting"].(object)
	of := fmt.Sprintf("%s %s", textOf(setting["profile"], "digest"), textOf(setting, "game"))
	right, there := d.policies[of]
	suits(policyForm.MatchString(policy) && (!there || right == policy), "stake policy %s", policy)
	d.policies[of] = policy
}
