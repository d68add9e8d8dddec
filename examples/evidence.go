// An evidence file of dollyd, held against its manifest: docs/evidence.md. A part of verify.go.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var (
	partForm = shape{"table": name, "chain": chainID, "first_seq": "count", "last_seq": "count", "prev": "string",
		"head": "string", "captures_from": "count"}
	memberForm   = shape{"name": "string", "size": "count", "sha256": "string"}
	missingForm  = shape{"folder": "string", "digest": "string"}
	listForm     = fmt.Sprintf("%T", []any{})
	manifestForm = shape{"v": "int64", "site": name, "from": "string", "to": "string", "chains": listForm,
		"members": listForm, "missing": listForm}
	memberName = regexp.MustCompile(`\A((manifest|trust|keys)\.json|config\.toml|records/[a-z0-9-]{1,40}\.jsonl` +
		`|captures/[0-9a-f]{32}/[1-9][0-9]{0,15}\.jsonl|(rulebooks|profiles|layouts)/[0-9a-f]{64}\.toml)\z`)
	textFolder = regexp.MustCompile(`\A(rulebooks|profiles|layouts)/(.*)\z`)
)

type member struct {
	name    string
	content []byte
}

type evidenceFile struct {
	members  []member // without captures
	captures []member // which no record has taken yet
	manifest object
	rules    map[string]bool // texts by which was decided
}

// tarHeader is that of a member, in its one form.
func tarHeader(name string, size int64) []byte {
	before := fmt.Sprintf("%s0000644\x000000000\x000000000\x00%011o\x00%011o\x00", padded(name, 100), size, 0)
	after := padded("0", 101) + "ustar\x0000"
	sum := 8 * ' '
	for _, char := range []byte(before + after) {
		sum += rune(char)
	}
	return []byte(padded(fmt.Sprintf("%s%06o\x00 %s", before, sum, after), 512))
}

func padded(text string, length int) string { return text + strings.Repeat("\x00", length-len(text)) }

var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0} // deflate, no name, no time

// isEvidence: what a file is, its bytes say, and not its name.
func isEvidence(data []byte) bool {
	return bytes.HasPrefix(data, gzipHeader[:2]) || len(data) > 262 && string(data[257:263]) == "ustar\x00"
}

// unpacked is what one gzip member and nothing behind it holds: 100 times its size at most, 64 MiB where it is small,
// 4 GiB in any case.
func unpacked(data []byte) []byte {
	if !bytes.HasPrefix(data, gzipHeader[:2]) {
		return data
	}
	demand(bytes.HasPrefix(data, gzipHeader), "file", "its gzip header is not in its one form")
	limit := int64(100 * len(data))
	if limit < 1<<26 {
		limit = 1 << 26
	}
	if limit > 1<<32-1 {
		limit = 1<<32 - 1
	}
	from := bytes.NewReader(data)
	packed, err := gzip.NewReader(from)
	demand(err == nil, "file", "%v", err)
	packed.Multistream(false)
	plain, err := io.ReadAll(io.LimitReader(packed, limit+1))
	demand(err == nil, "file", "%v", err)
	demand(int64(len(plain)) <= limit, "file", "it unpacks to more than %d bytes", limit)
	demand(from.Len() == 0, "file", "something is behind the end of the gzip")
	return plain
}

func membersOf(data []byte) (members []member) {
	for len(data) > 512 && data[0] != 0 {
		name := string(bytes.TrimRight(data[:100], "\x00"))
		size, err := strconv.ParseInt(string(data[124:135]), 8, 64)
		demand(err == nil && size >= 0 && bytes.Equal(data[:512], tarHeader(name, size)), "file", "not the header of a member")
		next := 512 + (size+511)/512*512
		demand(next <= int64(len(data)), "file", "it is cut off")
		members = append(members, member{name, data[512 : 512+size]})
		data = data[next:]
	}
	demand(bytes.Equal(data, make([]byte, 1024)), "file", "it is cut off, or something is behind its end")
	return members
}

func openEvidence(data []byte) *evidenceFile {
	e := &evidenceFile{rules: map[string]bool{}}
	afterCapture := false
	for _, one := range membersOf(data) {
		demand(memberName.MatchString(one.name), "file", "%s is no name of a member", one.name)
		isCapture := strings.HasPrefix(one.name, "captures/")
		together := !isCapture || afterCapture || len(e.captures) == 0
		demand(together && e.member(one.name) == nil, "file", "%s is there twice, or not in its place", one.name)
		if isCapture {
			e.captures = append(e.captures, one)
		} else {
			e.members = append(e.members, one)
		}
		afterCapture = isCapture
	}
	manifest := e.member("manifest.json")
	demand(manifest != nil, "file", "it has no manifest")
	e.manifest = strictObject(manifest.content)
	demand(only(e.manifest, manifestForm) && e.manifest["v"] == int64(1), "file", "the manifest is not of a known version")
	for name, form := range map[string]shape{"chains": partForm, "members": memberForm, "missing": missingForm} {
		for _, one := range e.manifest[name].([]any) {
			demand(only(one, form), "file", "%s of the manifest have another form", name)
		}
	}
	return e
}

func only(value any, form shape) bool { return fits(value, form) && len(value.(object)) == len(form) }

func (e *evidenceFile) member(name string) *member {
	for i := range e.members {
		if e.members[i].name == name {
			return &e.members[i]
		}
	}
	return nil
}

func (e *evidenceFile) lines() (lines [][]byte) {
	for _, one := range e.members {
		if strings.HasPrefix(one.name, "records/") && len(one.content) > 0 {
			demand(bytes.HasSuffix(one.content, []byte("\n")), "file", "%s is cut off", one.name)
			lines = append(lines, linesOf(one.content)...)
		}
	}
	return lines
}

func (e *evidenceFile) part(chain string) (found object) {
	for _, one := range e.manifest["chains"].([]any) {
		if part := one.(object); part["chain"] == chain {
			found = part
		}
	}
	demand(found != nil, "file", "chain %s is not in the manifest", chain)
	return found
}

// takeDecision looks at what is behind a decision: the next capture, and later the texts of the rules.
func (e *evidenceFile) takeDecision(chain string, seq int64, body object) {
	capture, _ := body["evidence"].(object)["capture"].(object)
	if capture != nil && capture["digest"] != "" {
		if len(e.captures) > 0 && e.captures[0].name == fmt.Sprintf("captures/%s/%d.jsonl", chain, seq) {
			demand(digest(e.captures[0].content) == capture["digest"], "body", "not the capture that was signed")
			e.captures = e.captures[1:]
		} else {
			demand(seq < e.part(chain)["captures_from"].(int64), "file", "the capture of record %d is missing", seq)
		}
	}
	if setting, _ := body["setting"].(object); setting != nil && setting["rulebook"].(object)["digest"] != "" {
		e.rules[fmt.Sprintf("rulebooks/%s.toml", setting["rulebook"].(object)["digest"])] = true
		e.rules[fmt.Sprintf("profiles/%s.toml", setting["profile"].(object)["digest"])] = true
	}
}

// check holds the manifest against the chains that were read and the members that are here.
func (e *evidenceFile) check(chains map[string]*chain) {
	for _, one := range e.manifest["chains"].([]any) {
		part := one.(object)
		c := chains[part["chain"].(string)]
		demand(c == nil || c.site == e.manifest["site"], "file", "chain %s is not of site %s", part["chain"], e.manifest["site"])
		same := c != nil && c.table == part["table"] && c.seq == part["last_seq"] && c.head == part["head"]
		demand(same, "file", "chain %s does not end where the manifest says", part["chain"])
	}
	listed := e.manifest["members"].([]any)
	demand(len(e.members) == 1+len(listed) && e.members[0].name == "manifest.json", "file", "the manifest has other members")
	for i, here := range e.members[1:] {
		entry := listed[i].(object)
		demand(here.name == entry["name"], "file", "%s is not in its place in the manifest", here.name)
		same := digest(here.content) == entry["sha256"] && int64(len(here.content)) == entry["size"]
		demand(same, "file", "%s is not what the manifest says", here.name)
		text := textFolder.FindStringSubmatch(here.name)
		demand(text == nil || text[2] == fmt.Sprintf("%s.toml", entry["sha256"]), "file", "%s has another name", here.name)
	}
	demand(len(e.captures) == 0, "file", "a capture belongs to no record, or is not in its place")
	for _, one := range e.manifest["missing"].([]any) {
		delete(e.rules, fmt.Sprintf("%s/%s.toml", one.(object)["folder"], one.(object)["digest"]))
	}
	for name := range e.rules {
		demand(e.member(name) != nil, "file", "%s is missing", name)
	}
}
