// What follows from what two persons have read: the other members of an outcome. A part of verify.go.
// docs/wire-format.md, "Decisions of persons", 6.
package main

import (
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const (
	faces     = "123456"
	noChances = 5 // the number of boule that has none of the simple chances
)

var (
	pocketForm = regexp.MustCompile(`\A(0|00|[1-9]|[12]\d|3[0-6])\z`)
	red        = members(1, 3, 5, 7, 9, 12, 14, 16, 18, 19, 21, 23, 25, 27, 30, 32, 34, 36)
	bouleRed   = members(2, 4, 7, 9)
	points     = members(4, 5, 6, 8, 9, 10)
)

// memory: what a game remembers between two rounds; nil where that is not known.
type memory map[string]string

func members(numbers ...int64) map[int64]bool {
	set := map[int64]bool{}
	for _, one := range numbers {
		set[one] = true
	}
	return set
}

func either(first bool, yes, no string) string {
	if first {
		return yes
	}
	return no
}

func field(number, width int64) string {
	first := (number-1)/width*width + 1
	return fmt.Sprintf("%d-%d", first, first+width-1)
}

func ofRoulette(value []string, outcome object, before memory) (object, bool) {
	if !pocketForm.MatchString(value[0]) {
		return nil, false
	}
	number, _ := strconv.ParseInt(value[0], 10, 64)
	came := object{"pocket": value[0], "colour": "green"}
	for _, name := range []string{"parity", "half", "dozen", "column", "street"} {
		came[name] = "none"
	}
	if number > 0 {
		came["colour"], came["parity"] = either(red[number], "red", "black"), either(number%2 == 1, "odd", "even")
		came["half"], came["dozen"], came["street"] = field(number, 18), field(number, 12), field(number, 3)
		came["column"] = strconv.FormatInt((number-1)%3+1, 10)
	}
	if _, there := outcome["quarter"]; there {
		came["quarter"] = either(number == 0, "none", field(number, 9))
	}
	if _, there := outcome["zeros_in_a_row"]; there {
		came["zeros_in_a_row"] = int64(0)
		if number == 0 {
			zeros, _ := strconv.ParseInt(orText(before["zeros"], "0"), 10, 64)
			came["zeros_in_a_row"] = zeros + 1
		}
	}
	return came, true
}

func orText(text, other string) string { return either(text != "", text, other) }

func ofBoule(value []string, _ object, _ memory) (object, bool) {
	number, err := strconv.ParseInt(value[0], 10, 64)
	cup, wrong := strconv.ParseInt(value[1], 10, 64)
	came := object{"number": value[0], "cup": cup, "colour": "none", "parity": "none", "half": "none"}
	if number != noChances {
		came["colour"], came["parity"] = either(bouleRed[number], "red", "black"), either(number%2 != 0, "odd", "even")
		came["half"] = either(number < noChances, "1-4", "6-9")
	}
	return came, err == nil && wrong == nil
}

func ofMoneyWheel(value []string, _ object, _ memory) (object, bool) {
	sector, err := strconv.ParseInt(value[0], 10, 64)
	return object{"sector": sector}, err == nil
}

func dice(value []string) (thrown []int64, good bool) {
	for _, face := range value {
		if len(face) != 1 || !strings.Contains(faces, face) {
			return nil, false
		}
		thrown = append(thrown, int64(face[0]-'0'))
	}
	return thrown, true
}

func twoDice(value []string) (object, int64, bool) {
	thrown, good := dice(value)
	if !good {
		return nil, 0, false
	}
	sum := thrown[0] + thrown[1]
	return object{"die_1": thrown[0], "die_2": thrown[1], "sum": sum, "pair": thrown[0] == thrown[1]}, sum, true
}

func ofCraps(value []string, _ object, before memory) (object, bool) {
	came, _, good := twoDice(value)
	if !good {
		return nil, false
	}
	came["phase"] = "come-out"
	if before["point"] != "" {
		point, err := strconv.ParseInt(before["point"], 10, 64)
		came["phase"], came["point"] = "point", point
		return came, err == nil
	}
	return came, true
}

func ofTuplanoppa(value []string, _ object, before memory) (object, bool) {
	came, sum, good := twoDice(value)
	if !good {
		return nil, false
	}
	came["under_over"] = either(sum == 7, "seven", either(sum < 7, "under", "over"))
	if before["seats"] != "" {
		seats := []any{}
		for _, seat := range strings.Fields(before["seats"]) {
			seats = append(seats, seat)
		}
		came["seats"], came["shooter"] = seats, before["shooter"]
	}
	return came, true
}

func ofSicBo(value []string, _ object, _ memory) (object, bool) {
	thrown, good := dice(value)
	if !good {
		return nil, false
	}
	sorted := append([]string{}, value...)
	sort.Strings(sorted)
	total, triple := thrown[0]+thrown[1]+thrown[2], sorted[0] == sorted[2]
	came := object{"die_1": thrown[0], "die_2": thrown[1], "die_3": thrown[2], "total": total, "triple": triple}
	came["size"] = either(triple, "none", either(total <= 10, "small", "big"))
	doubles, pairs := []any{}, []any{}
	for at, face := range strings.Split(faces, "") {
		count := strings.Count(strings.Join(value, ""), face)
		came["count_"+face] = int64(count)
		if count >= 2 {
			doubles = append(doubles, face)
		}
		for _, higher := range strings.Split(faces, "")[at+1:] {
			if count > 0 && strings.Contains(strings.Join(value, ""), higher) {
				pairs = append(pairs, face+"-"+higher)
			}
		}
	}
	came["doubles"], came["two_dice"] = doubles, pairs
	return came, true
}

var derived = map[string]func([]string, object, memory) (object, bool){"roulette": ofRoulette, "boule": ofBoule,
	"craps": ofCraps, "tuplanoppa": ofTuplanoppa, "sic-bo": ofSicBo, "money-wheel": ofMoneyWheel}

// texts of a list; not good where something else is in it.
func texts(list any) (said []string, good bool) {
	given, there := list.([]any)
	for _, one := range given {
		text, good := one.(string)
		if !good {
			return nil, false
		}
		said = append(said, text)
	}
	return said, there
}

// claimed is the memory with which an outcome says that its round began.
func claimed(game string, outcome object) memory {
	seats, seated := texts(outcome["seats"])
	point, hasPoint := outcome["point"]
	zeros, hasZeros := outcome["zeros_in_a_row"].(int64)
	switch {
	case game == "craps" && hasPoint:
		return memory{"point": fmt.Sprint(point)}
	case game == "tuplanoppa" && seated && len(seats) > 0:
		return memory{"seats": strings.Join(seats, " "), "shooter": textOf(outcome, "shooter")}
	case game == "roulette" && hasZeros && zeros > 1:
		return memory{"zeros": strconv.FormatInt(zeros-1, 10)}
	}
	return memory{}
}

// memoryAfter is what the game remembers after an outcome.
func memoryAfter(game string, outcome object) memory {
	sum, thrown := outcome["sum"].(int64)
	switch game {
	case "roulette":
		if zeros, there := outcome["zeros_in_a_row"]; there {
			return memory{"zeros": fmt.Sprint(zeros)}
		}
	case "craps":
		point, there := outcome["point"]
		if thrown && !there && points[sum] {
			return memory{"point": strconv.FormatInt(sum, 10)}
		}
		if thrown && there && sum != 7 && point != sum {
			return memory{"point": fmt.Sprint(point)}
		}
	case "tuplanoppa":
		seats, seated := texts(outcome["seats"])
		shooter, there := outcome["shooter"].(string)
		if !thrown || !seated || !there {
			return memory{}
		}
		if sum == 7 {
			shooter = nextSeat(seats, shooter)
		}
		return memory{"seats": strings.Join(seats, " "), "shooter": shooter}
	}
	return memory{}
}

func nextSeat(seats []string, shooter string) string {
	for at, seat := range seats {
		if seat == shooter {
			return seats[(at+1)%len(seats)]
		}
	}
	if len(seats) > 0 {
		return seats[0]
	}
	return ""
}

// contradiction is what an outcome says that does not follow from its reading, empty where all fits.
func contradiction(game string, value []any, outcome object, before memory) string {
	read, good := texts(value)
	if !good || derived[game] == nil {
		return "it is none of " + game
	}
	known := before
	if known == nil {
		known = claimed(game, outcome)
	}
	right, good := derived[game](read, outcome, known)
	if !good {
		return strings.Join(read, " ") + " cannot come in " + game
	}
	for name, one := range right {
		if said, there := outcome[name]; there && same(said) != same(one) {
			return "its " + name + " does not follow"
		}
	}
	for _, name := range []string{"point", "shooter", "seats"} {
		_, said := outcome[name]
		if _, there := right[name]; before != nil && said && !there {
			return "its " + name + " does not follow from the rounds before"
		}
	}
	return ""
}
