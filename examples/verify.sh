#!/usr/bin/env bash
# Check signatures and chain of records with the openssl command (3.0 or newer); no programming language.
#
# Usage: verify.sh KEYS RECORDS
# KEYS is what `dollyd keys show` prints, RECORDS has one envelope a line, in the order of publication.
set -o errexit -o nounset -o pipefail

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

from_base64url() { # $1: the text
    local padding="==="
    printf '%s' "$1${padding:0:$(((4 - ${#1} % 4) % 4))}" | tr '_-' '/+' | base64 --decode
}

wrong() {
    echo "WRONG: ${number:+record $number: }$1" >&2
    exit 1
}

# A key as openssl reads it: a fixed head, then its 32 bytes. Its name is its RFC 7638 thumbprint.
while read -r x; do
    kid=$(printf '{"crv":"Ed25519","kty":"OKP","x":"%s"}' "$x" | openssl dgst -sha256 -binary | base64 | tr '/+' '_-' | tr -d =)
    { printf '\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00' && from_base64url "$x"; } >"$work/$kid.key"
done < <(grep -o '"x": *"[^"]*"' "$1" | cut -d '"' -f 4)

declare -A seqs digests
number=
while IFS= read -r line; do
    number=$((${number:-0} + 1))
    # {"payload":"...","protected":"...","signature":"..."}: an envelope has this one form.
    IFS='"' read -r _ _ _ payload _ _ _ protected _ _ _ signature _ <<<"$line"
    header=$(from_base64url "$protected" | tr '\0' '?') # a shell text holds no NUL
    kid=$(cut -d '"' -f 8 <<<"$header")
    [[ $header == "{\"alg\":\"EdDSA\",\"kid\":\"$kid\",\"typ\":\"dolly-record/1\"}" ]] ||
        wrong "not a record of a known version"
    [[ -f $work/$kid.key ]] || wrong "unknown key $kid"
    printf '%s.%s' "$protected" "$payload" >"$work/signed"
    from_base64url "$signature" >"$work/signature"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/$kid.key" \
        -rawin -in "$work/signed" -sigfile "$work/signature" >/dev/null 2>&1 || wrong "the signature is wrong"

    # The head of a record comes first and in one order, so its members are found without a JSON parser.
    record=$(from_base64url "$payload" | tr '\0' '?')
    [[ $record =~ ^\{\"v\":1,.*\"chain\":\"([0-9a-f]+)\",\"seq\":([0-9]+),\"prev\":\"([0-9a-f]+)\",\"round\": ]] ||
        wrong "not a record of a known version"
    chain=${BASH_REMATCH[1]} seq=${BASH_REMATCH[2]} prev=${BASH_REMATCH[3]}
    if [[ -v seqs[$chain] ]]; then
        [[ $seq == $((seqs[$chain] + 1)) && $prev == "${digests[$chain]}" ]] ||
            wrong "does not follow record ${seqs[$chain]} of its chain"
    fi
    seqs[$chain]=$seq
    digests[$chain]=$(printf '%s' "$line" | sha256sum | cut -d ' ' -f 1)
done <"$2"
[[ $number ]] || wrong "no records"
echo "good: $number records in ${#seqs[@]} chains"
