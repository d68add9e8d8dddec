#!/usr/bin/env bash
# Check signatures and chain of records with the openssl command (3.0 or newer); no programming language.
#
# Usage: verify.sh KEYS RECORDS
# KEYS is what `dollyd keys show` prints, RECORDS has one envelope a line, in the order of publication. Chains may
# begin in their middle. Not looked at: JSON behind the head of a record, bodies, rounds, persons.
set -o errexit -o nounset -o pipefail
export LC_ALL=C # a letter is one of ASCII, a character one byte

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

wrong() {
    echo "WRONG: ${number:+record $number: }$1" >&2
    exit 1
}

to_base64url() { base64 --wrap=0 | tr '/+' '_-' | tr -d =; }

decode() { # $1: base64url, $2: the file for its bytes
    local padding="==="
    printf '%s' "$1${padding:0:$(((4 - ${#1} % 4) % 4))}" | tr '_-' '/+' | base64 --decode >"$2" 2>/dev/null &&
        [[ $(to_base64url <"$2") == "$1" ]] || wrong "not the canonical base64url of its bytes"
}

# Points of small order, for which anybody can sign, and encodings that are not the canonical one: 32 bytes as hex.
no_key='^(0[01](00){30}[08]0|(e[d-f]|f.)(ff){30}[7f]f|ec(ff){30}[7f]f'
no_key+='|26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc[08]5'
no_key+='|c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03[7f]a)$'

# Take a key ($1: x of its JWK): its `kid`, and as `protected` the one header that what it signs has.
declare -A files=() pinned=() turns=() places=() seqs=() digests=()
take_key() {
    [[ $1 =~ ^[A-Za-z0-9_-]{43}$ ]] || wrong "not an Ed25519 key"
    decode "$1" "$work/x"
    [[ ! $(od -An -v -tx1 "$work/x" | tr -d ' \n') =~ $no_key ]] || wrong "not a key that only its owner can use"
    kid=$(printf '{"crv":"Ed25519","kty":"OKP","x":"%s"}' "$1" | openssl dgst -sha256 -binary | to_base64url)
    protected=$(printf '{"alg":"EdDSA","kid":"%s","typ":"dolly-record/1"}' "$kid" | to_base64url)
    { printf '\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00' && cat "$work/x"; } >"$work/$1.key" # as openssl reads it
    files[$protected]=$work/$1.key
}

while read -r x; do
    take_key "$x"
    pinned[$protected]=yes
done < <(grep -o '"x": *"[^"]*"' "$1" | cut -d '"' -f 4)

part='"([A-Za-z0-9_-]+)"' name='"([a-z0-9-]{1,40})"' count='(0|[1-9][0-9]{0,15})'
envelope="^\{\"payload\":$part,\"protected\":$part,\"signature\":\"([A-Za-z0-9_-]{86})\"\}$"
# The head of a record comes first and in one order, so its members are found without a JSON parser.
kinds='session|round|bets-closed|result|void|throw-rejected|unresolved|correction|incident|gap|key|checkpoint'
head="^\{\"v\":1,\"kind\":\"($kinds|self-check|clock)\",\"site\":$name,\"node\":$name,\"table\":$name"
head+=",\"chain\":\"([0-9a-f]{32})\",\"seq\":$count,\"prev\":\"([0-9a-f]{64})\",\"round\":$count,\"time\":\{"
announced='"body":\{"event":"(chain-start|rotated)","jwk":\{"kty":"OKP","crv":"Ed25519","x":"([^"]*)","kid":"([^"]*)"'

number=
cat -- "$2" >"$work/records"
tr -d 'A-Za-z0-9_{}":,\n-' <"$work/records" | cmp -s - /dev/null || wrong "a byte that no envelope has"
[[ ! -s $work/records || $(tail -c 1 "$work/records" | wc -l) == 1 ]] || wrong "the last line is cut off"
while IFS= read -r line; do
    number=$((${number:-0} + 1))
    [[ ${#line} -le 1048576 && $line =~ $envelope ]] || wrong "not in the one form that an envelope has"
    payload=${BASH_REMATCH[1]} protected=${BASH_REMATCH[2]} signature=${BASH_REMATCH[3]}
    decode "$signature" "$work/signature"
    decode "$payload" "$work/payload"
    record=$(tr '\0' '?' <"$work/payload" && echo .) # a shell text holds no NUL, and no line end behind it
    [[ $record =~ $head && $record == *"}}." ]] || wrong "not a record of a known version"
    kind=${BASH_REMATCH[1]} place=${BASH_REMATCH[2]}/${BASH_REMATCH[4]}
    chain=${BASH_REMATCH[5]} seq=${BASH_REMATCH[6]} prev=${BASH_REMATCH[7]}
    ((seq < 2 ** 53 && BASH_REMATCH[8] < 2 ** 53)) || wrong "not a record of a known version"
    if [[ ${turns[$chain]-} ]]; then
        [[ $protected == "${turns[$chain]}" ]] || wrong "not the header of the key whose turn it is"
    else
        [[ ${pinned[$protected]-} ]] || wrong "not the header of a trusted key"
    fi
    printf '%s.%s' "$protected" "$payload" >"$work/signed"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "${files[$protected]}" \
        -rawin -in "$work/signed" -sigfile "$work/signature" >/dev/null 2>&1 || wrong "the signature is wrong"

    if [[ ${seqs[$chain]-} ]]; then
        [[ $seq == $((seqs[$chain] + 1)) && $prev == "${digests[$chain]}" ]] ||
            wrong "does not follow record ${seqs[$chain]} of its chain"
        [[ $place == "${places[$chain]}" ]] || wrong "the chain belongs to ${places[$chain]}"
    fi
    signer=$protected
    if [[ $kind == key ]]; then
        [[ $record =~ $announced ]] || wrong "announces no key"
        named=${BASH_REMATCH[3]}
        take_key "${BASH_REMATCH[2]}"
        [[ $kid == "$named" ]] || wrong "a key bears the name of another"
    fi
    if [[ $seq == 1 ]]; then
        [[ $kind == key && ! ${prev//0/} ]] || wrong "the chain does not begin with its key"
        [[ $protected == "$signer" ]] || wrong "the chain begins with a key that did not sign"
    fi
    turns[$chain]=$protected seqs[$chain]=$seq places[$chain]=$place
    digests[$chain]=$(printf '%s' "$line" | sha256sum | cut -d ' ' -f 1)
done <"$work/records"
[[ $number ]] || wrong "no records"
echo "good: $number records in ${#seqs[@]} chains"
